//! The sections above single decisions: `[kill_switch]`, `[state]`, `[approval]`, `[session]`.

use std::path::PathBuf;
use std::time::Duration;

use super::check::{self, ReadCheck};
use super::hook::hook;
use super::rate::{self, MAX_FIGURE, ReadAlert, ReadRate};
use super::reader::{Item, Table};
use super::{Span, sections};
use crate::policy::error::PolicyError;
use crate::policy::model::{AskBy, HaltOn, Hook, KillSwitch, StatePolicy};

/// One agent's queue is kept, listed and read by a person.
const MAX_PENDING: u64 = 10_000;

const APPROVAL: &[&str] =
    &["ask", "timeout", "expires", "max_pending", "notify", "escalate", "escalate_after"];

/// All of it, as one file writes it.
#[derive(Debug, Default)]
pub(in crate::policy) struct ReadOversight {
    pub kill_switch: Option<KillSwitch>,
    pub state: Option<StatePolicy>,
    pub approval: ReadApproval,
    pub rates: Vec<ReadRate>,
    pub alerts: Vec<ReadAlert>,
    pub session: ReadSession,
    pub checks: Vec<ReadCheck>,
}

/// `[approval]` as written.
#[derive(Debug, Default)]
pub(in crate::policy) struct ReadApproval {
    pub ask: Option<AskBy>,
    pub timeout: Option<Duration>,
    pub expires: Option<Duration>,
    pub max_pending: Option<u64>,
    pub notify: Option<Hook>,
    pub escalate: Option<(Hook, Span)>,
    pub escalate_after: Option<(Duration, Span)>,
    /// Where the section stands.
    pub at: Option<Span>,
}

/// `[session]` as written.
#[derive(Debug, Default)]
pub(in crate::policy) struct ReadSession {
    pub halt_on: Vec<HaltOn>,
    pub required: Option<bool>,
    pub max_runs: Option<u64>,
    pub max_wall_time: Option<Duration>,
    /// Where the section stands.
    pub at: Option<Span>,
}

pub(super) fn oversight(top: &Table<'_>) -> Result<ReadOversight, PolicyError> {
    Ok(ReadOversight {
        kill_switch: sections::optional(top, "kill_switch", kill_switch)?,
        state: sections::optional(top, "state", state)?,
        approval: sections::optional(top, "approval", approval)?,
        rates: rate::rates(top)?,
        alerts: rate::alerts(top)?,
        session: sections::optional(top, "session", session)?,
        checks: check::checks(top)?,
    })
}

fn kill_switch(t: &Table<'_>) -> Result<Option<KillSwitch>, PolicyError> {
    t.only(&["file"])?;
    let item = t.need("file")?;
    Ok(Some(KillSwitch { file: named(&item)?, at: t.doc.place(&item.span) }))
}

fn state(t: &Table<'_>) -> Result<Option<StatePolicy>, PolicyError> {
    t.only(&["dir"])?;
    let item = t.need("dir")?;
    Ok(Some(StatePolicy { dir: named(&item)?, at: t.doc.place(&item.span) }))
}

/// A path that is more than the root directory.
fn named(item: &Item<'_>) -> Result<PathBuf, PolicyError> {
    let path = item.path()?;
    match path.file_name() {
        Some(_) => Ok(path),
        None => Err(item.error(format!("{} cannot be the root directory", item.what))),
    }
}

fn approval(t: &Table<'_>) -> Result<ReadApproval, PolicyError> {
    t.only(APPROVAL).map_err(|error| match t.entries().iter().any(|(key, ..)| wishes_for_yes(key)) {
        true => error.hint("no answer in time is always a denial; no key changes that"),
        false => error,
    })?;
    Ok(ReadApproval {
        ask: t.opt("ask", ask)?,
        timeout: t.opt("timeout", Item::duration)?,
        expires: t.opt("expires", Item::duration)?,
        max_pending: t.opt("max_pending", |i| i.count(1, MAX_PENDING))?,
        notify: t.opt("notify", hook)?,
        escalate: t.opt("escalate", |i| Ok((hook(i)?, i.span.clone())))?,
        escalate_after: t.opt("escalate_after", |i| Ok((i.duration()?, i.span.clone())))?,
        at: Some(t.span.clone()),
    })
}

/// Keys by which other tools say what happens when nobody answers.
fn wishes_for_yes(key: &str) -> bool {
    !APPROVAL.contains(&key)
        && ["on_", "default", "timeout_", "fallback", "auto"].iter().any(|start| key.starts_with(start))
}

/// One of three words, or a program: what holds a `/` or starts at the home.
fn ask(item: &Item<'_>) -> Result<AskBy, PolicyError> {
    if !item.is_string() {
        return hook(item).map(AskBy::Program);
    }
    let text = item.string()?;
    if text.contains('/') || text.starts_with('~') {
        return hook(item).map(AskBy::Program);
    }
    let words = [("queue", 0), ("tty", 1), ("deny", 2)];
    let word = item.word(&words).map_err(|error| {
        let hint = error.hint.clone().unwrap_or_default();
        error.hint(format!("{hint}; a program is written as a path, such as `./confirm`"))
    })?;
    Ok(match word {
        0 => AskBy::Queue,
        1 => AskBy::Tty,
        _ => AskBy::Deny,
    })
}

fn session(t: &Table<'_>) -> Result<ReadSession, PolicyError> {
    t.only(&["halt_on", "required", "max_runs", "max_wall_time"])?;
    Ok(ReadSession {
        halt_on: t.opt("halt_on", halt_on)?.unwrap_or_default(),
        required: t.opt("required", Item::boolean)?,
        max_runs: t.opt("max_runs", |i| i.count(1, MAX_FIGURE))?,
        max_wall_time: t.opt("max_wall_time", Item::duration)?,
        at: Some(t.span.clone()),
    })
}

fn halt_on(item: &Item<'_>) -> Result<Vec<HaltOn>, PolicyError> {
    let mut out: Vec<HaltOn> = Vec::new();
    for entry in item.list("a list of strings")? {
        let halt = halt(&entry)?;
        let same = |other: &HaltOn| std::mem::discriminant(other) == std::mem::discriminant(&halt);
        if out.iter().any(same) {
            return Err(entry.error(format!("the same stands twice in {}", item.what)));
        }
        out.push(halt);
    }
    Ok(out)
}

fn halt(item: &Item<'_>) -> Result<HaltOn, PolicyError> {
    let words = [
        ("sandbox", HaltOn::Sandbox),
        ("check", HaltOn::Check),
        ("workspace", HaltOn::Workspace),
        ("timeout", HaltOn::Timeout),
        ("error", HaltOn::Error),
        ("exit", HaltOn::Exit),
    ];
    let text = item.string()?;
    if text == "denied" || text.starts_with("denied:") {
        let number = text.strip_prefix("denied:").unwrap_or_default();
        let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let number = number.parse().ok().filter(|n| plain && (1..=MAX_FIGURE).contains(n));
        return number.map(HaltOn::Denied).ok_or_else(|| {
            item.error("`denied` needs the number of denials that halts")
                .hint("such as \"denied:3\"; at least 1")
        });
    }
    item.word(&words).map_err(|error| {
        let hint = error.hint.clone().unwrap_or_default();
        error.hint(match hint.starts_with("there are") {
            true => format!("{hint}, denied:N"),
            false => hint,
        })
    })
}
