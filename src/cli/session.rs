//! `session`: sessions, and letting a halted one go on.

use std::time::SystemTime;

use rusqlite::Connection;
use serde_json::json;

use super::args::{IdArgs, SessionVerb, SessionsArgs};
use super::deliver::{put, say};
use super::store::{self, Kept, UNUSABLE, unusable};
use super::verbs::print_json;
use crate::Surroundings;
use crate::approval::screen::person;
use crate::report::audit::AuditError;
use crate::report::run_id;
use crate::report::trail::Trail;
use crate::request::quote::{display, escape_text};
use crate::state::sessions::{self, Halt, Session, SessionEvent};
use crate::state::{Moment, StateError, Store};
use crate::sys::account::Person;

/// There is no such session.
const UNKNOWN: u8 = 1;
/// Whoever is an agent lets no session go on.
const DENIED: u8 = 126;

/// `session`: 0; 1 where there is no such session; 125 where the policies or the store cannot be used; 126 where an agent
/// wants to let one go on.
pub fn session(verb: &SessionVerb, around: &Surroundings) -> u8 {
    let done = match verb {
        SessionVerb::List(args) => list(args, around),
        SessionVerb::Show(args) => show(args, around),
        SessionVerb::Resume(args) => resume(args, around),
    };
    done.err().unwrap_or(0)
}

fn list(args: &SessionsArgs, around: &Surroundings) -> Result<(), u8> {
    let kept = store::find(&args.policy, around, false)?;
    let all = match kept.look()? {
        Some(mut view) => view
            .read(|db, _| {
                sessions::list(db)?.into_iter().map(|session| standing(db, &kept, session)).collect()
            })
            .map_err(|error| unusable(&error))?,
        None => Vec::new(),
    };
    if args.json {
        print_json(&all.iter().map(Session::to_json).collect());
        return Ok(());
    }
    for session in &all {
        put(format!("{}\n", line(session)).as_bytes());
    }
    if all.is_empty() {
        put(b"no sessions\n");
    }
    Ok(())
}

fn show(args: &IdArgs, around: &Surroundings) -> Result<(), u8> {
    let kept = store::find(&args.policy, around, false)?;
    let (session, history) = known(&kept, &args.id)?;
    if args.json {
        let mut object = session.to_json();
        object["history"] = history.iter().map(SessionEvent::to_json).collect();
        print_json(&object);
        return Ok(());
    }
    put(format!("{}\n", line(&session)).as_bytes());
    put(format!(
        "first call {}, last call {}, {} runs and {} denials in all\n",
        session.first, session.last, session.all_runs, session.all_denials
    )
    .as_bytes());
    for event in &history {
        let part = |before: &str, text: &Option<String>| {
            text.as_ref().map(|text| format!("{before}{}", escape_text(text))).unwrap_or_default()
        };
        let by = part(" by ", &event.by);
        let (reason, run) = (part(": ", &event.reason), part(" in run ", &event.run));
        put(format!("{} {}{by}{reason}{run}\n", event.wall, event.event).as_bytes());
    }
    Ok(())
}

/// The session as its next call will find it.
fn standing(db: &Connection, kept: &Kept, session: Session) -> Result<Session, StateError> {
    sessions::with_cut_off(db, &kept.dir, &kept.policies, session)
}

/// The session and what happened to it.
fn known(kept: &Kept, id: &str) -> Result<(Session, Vec<SessionEvent>), u8> {
    let found = match kept.look()? {
        Some(mut view) => view.read(|db, _| match sessions::find(db, id)? {
            Some(session) => Ok(Some((standing(db, kept, session)?, sessions::history(db, id)?))),
            None => Ok(None),
        }),
        None => Ok(None),
    };
    found.map_err(|error| unusable(&error))?.ok_or_else(|| unknown(id))
}

fn resume(args: &IdArgs, around: &Surroundings) -> Result<(), u8> {
    if let Some(agent) = &around.facts.agent {
        say(&format!(
            "guardexec: error: an agent lets no session go on, and this is {} (GUARDEXEC_AGENT); ask a person",
            display(agent.as_bytes())
        ));
        return Err(DENIED);
    }
    let kept = store::find(&args.policy, around, false)?;
    let (found, _) = known(&kept, &args.id)?;
    let by = person(&Person::here());
    let (before, now) = record_and_resume(&kept, &args.id, &by)?;
    // What the next call would have found is forgiven with the rest.
    let before = before.halted.or(found.halted);
    if args.json {
        print_json(&json!({
            "id": args.id,
            "resumed_at": now.wall,
            "by": by,
            "halted": before.as_ref().map(Halt::to_json),
        }));
        return Ok(());
    }
    let was =
        before.map(|halt| format!(", which was halted: {}", escape_text(&halt.reason))).unwrap_or_default();
    put(format!("session {} may go on{was}\n", display(args.id.as_bytes())).as_bytes());
    Ok(())
}

/// Lets the session go on and records that, both or neither. Gives it as it was.
fn record_and_resume(kept: &Kept, id: &str, by: &str) -> Result<(Session, Moment), u8> {
    let mut trail = Trail::open(&kept.policies).map_err(|error| unrecorded(&error))?;
    let run_id = run_id::new(SystemTime::now());
    let resumed = Store::open(&kept.dir).and_then(|mut store| {
        store.attempt(|tx, now| {
            let Some(before) = sessions::resume_session(tx, now, &kept.dir, id, by)? else {
                return Ok(Err(unknown(id)));
            };
            let reason = before.halted.as_ref().map(|halt| halt.reason.as_str());
            Ok(match trail.resumed(&run_id, id, by, reason) {
                Ok(()) => Ok((before, now.clone())),
                Err(error) => Err(unrecorded(&error)),
            })
        })
    });
    resumed.map_err(|error| unusable(&error))?
}

/// Says that it cannot be recorded; gives the exit status.
fn unrecorded(error: &AuditError) -> u8 {
    say(&escape_text(&format!("guardexec: error: {error}; nothing was changed; {}", error.hint())));
    UNUSABLE
}

/// Says that there is no such session; gives the exit status.
fn unknown(id: &str) -> u8 {
    say(&format!("guardexec: error: there is no session {}", display(id.as_bytes())));
    say("hint: guardexec session list shows those of this policy and --state");
    UNKNOWN
}

fn line(session: &Session) -> String {
    let halted = session.halted.as_ref().map(|halt| {
        let run = halt.run.as_ref().map(|run| format!(" in run {}", escape_text(run))).unwrap_or_default();
        format!("halted {}: {}{run}", halt.wall, escape_text(&halt.reason))
    });
    format!(
        "{}: {}; {} runs and {} denials since {}",
        display(session.id.as_bytes()),
        halted.unwrap_or_else(|| "open".to_owned()),
        session.runs,
        session.denials,
        session.since_wall,
    )
}
