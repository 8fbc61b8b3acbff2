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

/// Tells all that the policies name for a request that was just filed. Gives warnings.
pub fn filed(asked: &Asked<'_>, paper: &Paper<'_>, around: &Around<'_>) -> Vec<String> {
    let hooks = asked.notify.iter().copied();
    hooks.filter_map(|hook| one("notify", hook, paper, asked.timeout, around)).collect()
}

/// Tells all that the policies name for a request that nobody answered in time. Gives warnings.
pub fn unanswered(asked: &Asked<'_>, paper: &Paper<'_>, around: &Around<'_>) -> Vec<String> {
    let hooks = asked.escalate.iter().map(|(hook, _)| *hook);
    hooks.filter_map(|hook| one("escalate", hook, paper, asked.timeout, around)).collect()
}

/// Tells of every request in the store of which it is time to tell: each is claimed before, so that nobody is told twice.
/// Gives warnings. The store must not be open in this process, for programs are started.
///
/// # Errors
/// As every use of the store.
pub fn overdue(dir: &Path, asked: &Asked<'_>, around: &Around<'_>) -> Result<Vec<String>, StateError> {
    let is_due = match Store::look(dir)? {
        Some(mut view) if !asked.escalate.is_empty() => view.read(approvals::escalation_is_due)?,
        _ => false,
    };
    if !is_due {
        return Ok(Vec::new());
    }
    let claimed = Store::open(dir)?.transaction(|tx, now| {
        let entries = queue::escalations(tx, now)?;
        entries
            .into_iter()
            .map(|entry| Ok((queue::lately(tx, now, &entry)?, entry)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(claimed
        .iter()
        .flat_map(|(lately, entry)| unanswered(asked, &Paper::of(entry, lately), around))
        .collect())
}

fn one(name: &str, hook: &Hook, paper: &Paper<'_>, timeout: Duration, around: &Around<'_>) -> Option<String> {
    // Whoever is told need not see the output of a run: whoever answers does.
    let paper = &Paper { output: None, ..*paper };
    let heard = tell(name, hook, paper, timeout, around);
    let why = heard.failure()?;
    let said = match heard {
        Heard::Exited { .. } | Heard::Signaled { .. } if !heard.stderr().is_empty() => {
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
