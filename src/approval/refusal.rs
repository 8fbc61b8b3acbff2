//! The ways in which an approval says no; each with a code of its own.

use crate::decision::{Denial, Stage};
use crate::request::quote;

/// A refusal at the stage `approval`.
pub(super) fn refusal(
    code: &'static str,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Box<Denial> {
    let (message, hint) = (message.into(), Some(hint.into()));
    Box::new(Denial { code, stage: Stage::Approval, message, hint, rule: None })
}

/// A request that cannot be approved, because what it means cannot be pinned down.
pub(super) fn unbindable(why: impl Into<String>) -> Box<Denial> {
    let message = format!("this needs an approval, and cannot be approved: {}", why.into());
    refusal(
        "approval_unbindable",
        message,
        "an approval binds to content: ask for something whose content can be read",
    )
}

/// The same, because of a file.
pub(super) fn unbindable_file(path: &[u8], why: &str) -> Box<Denial> {
    unbindable(format!("the content of {} cannot be bound: {why}", quote::repr(path)))
}
