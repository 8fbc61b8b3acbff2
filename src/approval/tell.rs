//! Telling others: of a request that was filed, and of one that nobody answers. What fails is a warning and no more.

use std::path::Path;
use std::time::Duration;

use super::program::{Around, tell};
use super::queue;
use super::screen::Paper;
use crate::hook::Heard;
use crate::policy::model::Hook;
use crate::policy::oversight::Asked;
use crate::request::quote;
use crate::state::{StateError, Store, approvals};

/// What came of telling.
#[derive(Debug, Default)]
pub struct Told {
    /// A sentence for each program that could not be told.
    pub warnings: Vec<String>,
    /// guardexec was told to end meanwhile, by this signal, which nobody else will hear of.
    pub cancelled: Option<i32>,
}

impl Told {
    /// Runs one program, if nothing ended guardexec before.
    fn one(&mut self, name: &str, hook: &Hook, paper: &Paper<'_>, time: Duration, around: &Around<'_>) {
        if self.cancelled.is_none() {
            // Whoever is told need not see the output of a run: whoever answers does.
            let paper = &Paper { output: None, ..*paper };
            let heard = tell(name, hook, paper, time, around);
            self.cancelled = heard.cancelled();
            self.warnings.extend(untold(name, hook, paper, &heard));
        }
    }
}

/// Tells all that the policies name for a request that was just filed.
pub fn filed(asked: &Asked<'_>, paper: &Paper<'_>, around: &Around<'_>) -> Told {
    let mut told = Told::default();
    for hook in &asked.notify {
        told.one("notify", hook, paper, asked.timeout, around);
    }
    told
}

/// Tells all that the policies name for requests that nobody answered in time.
pub fn unanswered<'p>(
    asked: &Asked<'_>,
    papers: impl IntoIterator<Item = Paper<'p>>,
    around: &Around<'_>,
) -> Told {
    let mut told = Told::default();
    for paper in papers {
        for (hook, _) in &asked.escalate {
            told.one("escalate", hook, &paper, asked.timeout, around);
        }
    }
    told
}

/// Tells of every request in the store of which it is time to tell: each is claimed before, so that nobody is told twice.
/// The store must not be open in this process, for programs are started.
///
/// # Errors
/// As every use of the store.
pub fn overdue(dir: &Path, asked: &Asked<'_>, around: &Around<'_>) -> Result<Told, StateError> {
    let is_due = match Store::look(dir)? {
        Some(mut view) if !asked.escalate.is_empty() => view.read(approvals::escalation_is_due)?,
        _ => false,
    };
    if !is_due {
        return Ok(Told::default());
    }
    let claimed = Store::open(dir)?.transaction(|tx, now| {
        let entries = queue::escalations(tx, now)?;
        entries
            .into_iter()
            .map(|entry| Ok((queue::lately(tx, now, &entry)?, entry)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(unanswered(asked, claimed.iter().map(|(lately, entry)| Paper::of(entry, lately)), around))
}

/// The warning where a program did not take what it was told.
fn untold(name: &str, hook: &Hook, paper: &Paper<'_>, heard: &Heard) -> Option<String> {
    let why = heard.failure()?;
    let said = match heard {
        // What it was told of an output is not for the asker, whom this warning reaches.
        Heard::Exited { .. } | Heard::Signaled { .. }
            if !heard.stderr().is_empty() && paper.bound.output.is_none() =>
        {
            format!(": {}", quote::line(heard.stderr()))
        }
        _ => String::new(),
    };
    let id = paper.entry.map(|entry| entry.id.as_str()).unwrap_or_default();
    let program = hook.argv.first().map(|word| quote::repr(word.as_bytes())).unwrap_or_default();
    Some(format!(
        "the program {program} ({name}, {}) was to be told of approval {id}, and {why}{said}",
        hook.at
    ))
}
