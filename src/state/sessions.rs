//! Sessions: what they have done, and those that are halted until a person lets them go on.
//!
//! A session begins with the first call that is noted here and is known by its id alone. What it may still do is reckoned from its beginning,
//! or from the last time somebody let it go on: that forgives everything, since a person looked at it. Nothing else does: only
//! a session of which forgetting lifts nothing is forgotten.

mod begun;
mod kept;

use std::path::Path;
use std::time::Duration;

use kept::count;

pub use begun::{Begun, conclude, halt_cut_off, has_cut_off, is_kept, run_begins, with_cut_off};
pub use kept::{find, history, list};
use rusqlite::{Transaction, params};

use super::keeping::{KEPT, ROWS};
use super::refusal::{Refusal, span};
use super::{Moment, StateError};
use crate::policy::model::{HaltOn, Place, Policy, SessionPolicy};
use crate::policy::oversight;
use crate::request::quote::{escape_text, repr};
use crate::request::units::show_duration;

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The time of day of its first call (RFC 3339).
    pub first: String,
    /// The time of day of its last one.
    pub last: String,
    /// When it began, or was last let go on, in the store's time.
    pub since: i64,
    /// The same as a time of day.
    pub since_wall: String,
    /// Runs since then.
    pub runs: u64,
    /// Denials since then.
    pub denials: u64,
    /// Runs ever.
    pub all_runs: u64,
    /// Denials ever.
    pub all_denials: u64,
    /// Why it is halted, where it is.
    pub halted: Option<Halt>,
}

/// Why and when a session was halted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    /// A sentence's part: `a run timed out`.
    pub reason: String,
    /// The time of day (RFC 3339).
    pub wall: String,
    /// The run that did it.
    pub run: Option<String>,
}

/// Something that a session is known for afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEvent {
    /// `halted` or `resumed`.
    pub event: String,
    /// The time of day (RFC 3339).
    pub wall: String,
    /// Who did it, where a person did.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// In which run.
    pub run: Option<String>,
}

/// Whether the session may have another call: the first thing that stands against it. Reads only; `source` is `None` where
/// nothing was kept yet, else the store in `dir`. Without any `[session]` everything may.
///
/// # Errors
/// The store cannot be read.
pub fn check(
    source: super::rates::Source<'_>,
    dir: &Path,
    policies: &[Policy],
    session: Option<&str>,
) -> Result<Option<Refusal>, StateError> {
    let sections: Vec<&SessionPolicy> = oversight::sessions(policies).collect();
    let Some(any) = sections.first() else { return Ok(None) };
    let Some(id) = session else { return Ok(sections.iter().find(|s| s.required).map(|s| required(s))) };
    let Some((db, now)) = source else { return Ok(None) };
    let Some(found) = find(db, id)? else { return Ok(None) };
    let found = with_cut_off(db, dir, policies, found)?;
    let refused = halted(&found, any).or_else(|| {
        let runs = tightest(&sections, |s| s.max_runs)?;
        if found.runs >= runs.1 { Some(too_many(&found, runs)) } else { None }
    });
    Ok(refused.or_else(|| {
        let (at, most) = tightest(&sections, |s| s.max_wall_time)?;
        if now.since(found.since) >= most { Some(too_long(&found, (at, most), now)) } else { None }
    }))
}

/// The smallest of a figure that several sections may have, and the place of its section.
fn tightest<'p, T: Ord>(
    sections: &[&'p SessionPolicy],
    figure: impl Fn(&SessionPolicy) -> Option<T>,
) -> Option<(&'p Place, T)> {
    sections.iter().filter_map(|s| Some((&s.at, figure(s)?))).min_by(|a, b| a.1.cmp(&b.1))
}

fn refusal(code: &'static str, at: &Place, message: String, hint: String) -> Refusal {
    Refusal { code, message, hint, name: "session".to_owned(), at: at.clone() }
}

fn required(section: &SessionPolicy) -> Refusal {
    let message = "every request has to name its session, and this one names none".to_owned();
    refusal("session_required", &section.at, message, "name it with --session ID".to_owned())
}

fn resume(id: &str) -> String {
    format!(
        "a person can let it go on: guardexec session resume {}, with the same --policy",
        crate::request::quote::display(id.as_bytes())
    )
}

fn halted(session: &Session, section: &SessionPolicy) -> Option<Refusal> {
    let halt = session.halted.as_ref()?;
    let run = halt.run.as_ref().map(|run| format!(" in run {}", escape_text(run)));
    let message = format!(
        "session {} is halted: {}{} at {}",
        repr(session.id.as_bytes()),
        escape_text(&halt.reason),
        run.unwrap_or_default(),
        halt.wall,
    );
    Some(refusal("session_halted", &section.at, message, resume(&session.id)))
}

fn too_many(session: &Session, (at, most): (&Place, u64)) -> Refusal {
    let id = repr(session.id.as_bytes());
    let runs = if most == 1 { "1 run".to_owned() } else { format!("{most} runs") };
    let message = format!("session {id} has had its {runs} (max_runs)");
    refusal("session_max_runs", at, message, resume(&session.id))
}

fn too_long(session: &Session, (at, most): (&Place, Duration), now: &Moment) -> Refusal {
    let message = format!(
        "session {} began {} ago and may last {} (max_wall_time)",
        repr(session.id.as_bytes()),
        span(now.since(session.since)),
        show_duration(most),
    );
    refusal("session_max_wall_time", at, message, resume(&session.id))
}

/// Counts a run of the session, which begins with it if this is its first call.
///
/// # Errors
/// The store cannot be written.
pub fn count_run(
    tx: &Transaction<'_>,
    now: &Moment,
    policies: &[Policy],
    id: &str,
) -> Result<(), StateError> {
    begin(tx, now, policies, id)?;
    tx.execute("UPDATE sessions SET runs = runs + 1, all_runs = all_runs + 1 WHERE id = ?1", [id])?;
    Ok(())
}

/// Counts a denial, but not one for the session's own state, and halts the session where a policy's `denied:N` says so. Gives the reason where this halted it.
///
/// # Errors
/// The store cannot be written.
pub fn count_denial(
    tx: &Transaction<'_>,
    now: &Moment,
    policies: &[Policy],
    id: &str,
    run: Option<&str>,
) -> Result<Option<Halt>, StateError> {
    begin(tx, now, policies, id)?;
    tx.execute(
        "UPDATE sessions SET denials = denials + 1, all_denials = all_denials + 1 WHERE id = ?1",
        [id],
    )?;
    let denials = tx.query_row("SELECT denials FROM sessions WHERE id = ?1", [id], |row| count(row, 0))?;
    let reached = halts(policies).filter_map(|on| match on {
        HaltOn::Denied(most) if denials >= most => Some(most),
        _ => None,
    });
    match reached.min() {
        Some(_) => {
            let reason = match denials {
                1 => "1 of its calls was denied".to_owned(),
                denials => format!("{denials} of its calls were denied"),
            };
            halt(tx, now, policies, id, &reason, run)
        }
        None => Ok(None),
    }
}

/// Halts the session where a policy's `halt_on` holds `on`. Gives the reason where this halted it.
///
/// # Errors
/// The store cannot be written.
pub fn halt_on(
    tx: &Transaction<'_>,
    now: &Moment,
    policies: &[Policy],
    id: &str,
    on: HaltOn,
    run: Option<&str>,
) -> Result<Option<Halt>, StateError> {
    if !halts(policies).any(|known| known == on) {
        return Ok(None);
    }
    let reason = match on {
        HaltOn::Sandbox => "a run went against its confinement, or could not be confined",
        HaltOn::Check => "a check blocked or failed",
        HaltOn::Workspace => "a run changed what the workspace protects",
        HaltOn::Timeout => "a run reached its wall_time",
        HaltOn::Error => "a call ended in an error",
        HaltOn::Exit => "a command failed",
        HaltOn::Denied(_) => "calls were denied",
    };
    halt(tx, now, policies, id, reason, run)
}

/// Everything that any policy halts on.
fn halts(policies: &[Policy]) -> impl Iterator<Item = HaltOn> {
    oversight::sessions(policies).flat_map(|section| section.halt_on.iter().copied())
}

/// Whether any policy halts a session on this; of denials, on any number of them.
pub fn is_halted_on(policies: &[Policy], on: HaltOn) -> bool {
    halts(policies).any(|known| match (known, on) {
        (HaltOn::Denied(_), HaltOn::Denied(_)) => true,
        (known, on) => known == on,
    })
}

/// Halts the session, whatever the policy says. A session that is halted already keeps its first reason.
///
/// # Errors
/// The store cannot be written.
pub fn halt(
    tx: &Transaction<'_>,
    now: &Moment,
    policies: &[Policy],
    id: &str,
    reason: &str,
    run: Option<&str>,
) -> Result<Option<Halt>, StateError> {
    begin(tx, now, policies, id)?;
    let changed = tx.execute(
        "UPDATE sessions SET halted = ?2, halted_wall = ?3, halted_run = ?4 WHERE id = ?1 AND halted IS NULL",
        params![id, reason, now.wall, run],
    )?;
    if changed == 0 {
        return Ok(None);
    }
    record(tx, now, id, "halted", None, Some(reason), run)?;
    Ok(Some(Halt { reason: reason.to_owned(), wall: now.wall.clone(), run: run.map(str::to_owned) }))
}

/// Lets the session go on: nothing of what it did before counts against it any more, in the store in `dir`. Gives the
/// session as it was; `None` where there is none.
///
/// # Errors
/// The store cannot be written.
pub fn resume_session(
    tx: &Transaction<'_>,
    now: &Moment,
    dir: &Path,
    id: &str,
    by: &str,
) -> Result<Option<Session>, StateError> {
    let Some(before) = find(tx, id)? else { return Ok(None) };
    begun::forget_cut_off(tx, dir, id)?;
    tx.execute(
        "UPDATE sessions SET since = ?2, since_wall = ?3, last_at = ?2, runs = 0, denials = 0,
         halted = NULL, halted_wall = NULL, halted_run = NULL WHERE id = ?1",
        params![id, now.nanos, now.wall],
    )?;
    let reason = before.halted.as_ref().map(|halt| halt.reason.as_str());
    record(tx, now, id, "resumed", Some(by), reason, None)?;
    Ok(Some(before))
}

/// Notes a call of the session, which begins with it if it is the first: for calls that neither run nor are denied, such as
/// those that a person is asked about.
///
/// # Errors
/// The store cannot be written.
pub fn begin(tx: &Transaction<'_>, now: &Moment, policies: &[Policy], id: &str) -> Result<(), StateError> {
    tx.execute(
        "INSERT INTO sessions (id, first, last, since, since_wall, last_at, bounded) VALUES (?1, ?2, ?2, ?3, ?2, ?3, ?4)
         ON CONFLICT (id) DO UPDATE SET last = ?2, last_at = ?3, bounded = max(bounded, ?4)",
        params![id, now.wall, now.nanos, bounded(policies)],
    )?;
    Ok(())
}

/// Whether anything counts up against a session, so that one who is forgotten could do more than it may.
fn bounded(policies: &[Policy]) -> bool {
    oversight::sessions(policies).any(|section| section.max_runs.is_some() || section.max_wall_time.is_some())
        || is_halted_on(policies, HaltOn::Denied(0))
}

/// Forgets some of the sessions that nobody has used for long. One that is halted stays, one with a run that was cut off, which
/// may halt it yet, and one that a policy has bounded: forgotten, it would begin anew.
///
/// # Errors
/// The store cannot be written.
pub(super) fn forget(tx: &Transaction<'_>, now: &Moment) -> Result<(), StateError> {
    let idle: Vec<String> = tx
        .prepare(
            "SELECT id FROM sessions INDEXED BY sessions_idle
             WHERE halted IS NULL AND bounded = 0 AND last_at <= ?1
               AND NOT EXISTS (SELECT 1 FROM session_runs WHERE session = sessions.id)
             ORDER BY last_at LIMIT ?2",
        )?
        .query_map(params![now.minus(KEPT), ROWS], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for id in idle {
        tx.execute("DELETE FROM session_events WHERE session = ?1", [&id])?;
        tx.execute("DELETE FROM sessions WHERE id = ?1", [&id])?;
    }
    Ok(())
}

fn record(
    tx: &Transaction<'_>,
    now: &Moment,
    id: &str,
    event: &str,
    by: Option<&str>,
    reason: Option<&str>,
    run: Option<&str>,
) -> Result<(), StateError> {
    tx.execute(
        "INSERT INTO session_events (session, event, nanos, wall, by, reason, run) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![id, event, now.nanos, now.wall, by, reason, run],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
