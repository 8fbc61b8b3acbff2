//! Asking: what an approval binds to, who is asked and how, and what they see.
//!
//! An approval answers the asking alone, once: [`bound`] is all that it binds to, content included, and whatever differs
//! when it is used makes it another request. [`screen`] and [`document`] show it to a person and to a program, [`tty`]
//! asks at the terminal.

use bound::Bound;

use crate::decision::Denial;
use crate::request::quote;
use crate::sys::account::Person;

pub mod bound;
pub mod bytes;
pub mod document;
pub mod entry;
pub mod files;
pub mod kept;
pub mod queue;
mod refusal;
pub mod screen;
#[cfg(test)]
mod tests;
pub mod tty;
mod vigil;

/// What came of asking, where it is no refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It may run.
    Approved {
        /// Who said so.
        by: Person,
        /// What was said with it.
        text: Option<String>,
    },
    /// guardexec was told to end while it waited, by this signal.
    Cancelled(i32),
}

/// The refusal of whoever was asked, in the words that callers look for.
fn denied(bound: &Bound, reason: Option<&str>) -> Box<Denial> {
    let message = format!("confirmation for {} denied", quote::repr(bound.asked_name()));
    let hint = match reason.filter(|reason| !reason.trim().is_empty()) {
        Some(reason) => format!("the reason given: {}", quote::line(reason.as_bytes())),
        None => "nothing ran; do without it, or say with --why what it is for".into(),
    };
    refusal::refusal("approval_declined", message, hint)
}
