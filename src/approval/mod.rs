//! Asking: what an approval binds to, who is asked and how, and what they see.
//!
//! An approval answers the asking alone, once: [`bound`] is all that it binds to, content included, and whatever differs
//! when it is used makes it another request. [`screen`] and [`document`] show it to a person and to a program; [`tty`] and
//! [`program`] ask for an answer at once, [`queue`] files it for whoever answers later, and [`wait`] waits for them. The output of
//! a run may wait for an answer as well: [`withheld`].

use std::time::Duration;

use bound::Bound;
use entry::Answerer;
use program::Around;
use screen::Paper;

use crate::decision::{Denial, Stage};
use crate::policy::oversight::Asked;
use crate::request::quote;

pub mod bound;
pub mod bytes;
pub mod document;
pub mod entry;
mod filed;
pub mod files;
pub mod kept;
pub mod output;
pub mod program;
pub mod queue;
mod refusal;
pub mod screen;
pub mod tell;
#[cfg(test)]
mod tests;
pub mod tty;
pub mod vigil;
pub mod wait;
pub mod withheld;

/// What came of asking.
#[derive(Debug)]
pub enum Reply {
    /// It may run.
    Approved {
        /// Who said so.
        by: Answerer,
        /// What was said with it.
        said: Option<String>,
    },
    /// It may not.
    Declined {
        /// The refusal.
        denial: Box<Denial>,
        /// Who said so; `None` where nobody did.
        by: Option<Answerer>,
        /// The reason that was given, or why there was no answer; hostile text.
        said: Option<String>,
    },
    /// guardexec was told to end while it waited, by this signal.
    Cancelled(i32),
    /// Everything had to stop meanwhile.
    Stopped,
}

impl Reply {
    /// A refusal that is nobody's answer.
    fn refused(denial: Box<Denial>) -> Reply {
        Reply::Declined { denial, by: None, said: None }
    }
}

/// Asks all who answer at once: programs, then the terminal; every one of them has to approve. `None` where none is
/// named, so that the store alone decides.
pub fn ask(asked: &Asked<'_>, paper: &Paper<'_>, around: &Around<'_>) -> Option<Reply> {
    if asked.nobody.is_some() {
        return Some(Reply::refused(nobody(paper.bound)));
    }
    let mut reply = None;
    for hook in &asked.programs {
        match program::ask(hook, paper, asked.timeout, around) {
            approved @ Reply::Approved { .. } => reply = Some(approved),
            other => return Some(other),
        }
    }
    if asked.tty {
        return Some(tty::ask(paper, asked.timeout, around.stop));
    }
    reply
}

/// The refusal where the policy lets nobody be asked, in the words that callers look for.
fn nobody(bound: &Bound) -> Box<Denial> {
    bare("approval_nobody", format!("{} requires confirmation but no confirm hook is set", bound.name()))
}

/// The refusal of whoever was asked, in the words that callers look for.
fn denied(bound: &Bound) -> Box<Denial> {
    bare("approval_declined", format!("confirmation for {} denied", quote::repr(bound.asked_name())))
}

/// The refusal where somebody said yes to what is not there any more; `what` is how a [`bound::Difference`] says it.
pub fn changed_meanwhile(what: &str) -> Denial {
    let message = format!("the approval does not cover this: {what} while it was asked for");
    *refusal::refusal("approval_stale", message, "ask again: what was approved is not what would run now")
}

/// A refusal of one sentence.
fn bare(code: &'static str, message: String) -> Box<Denial> {
    Box::new(Denial { code, stage: Stage::Approval, message, hint: None, rule: None })
}

/// A time as policies write it.
fn shown_time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}
