//! What an authorization came to, as the result has it and as it is recorded.

use std::os::unix::ffi::OsStrExt as _;

use super::aftermath::{self, Left};
use super::authority::{Authority, Authorized, Came};
use crate::decision::{Decision, Grant};
use crate::report::result::ResultDoc;
use crate::report::status::Status;
use crate::report::trail::{self, Asked, Trail};

/// What is to be done now. It lives for one match.
#[allow(clippy::large_enum_variant)]
pub(super) enum Settled {
    /// The request may run.
    Runs(Box<Grant>),
    /// The result of a run that is over goes out. Its output is not in the document yet.
    Gives(Box<ResultDoc>),
    /// Such a result waits for an answer yet.
    Waits,
    /// It ends here.
    Ended,
}

/// Where a call is when something is concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Nothing has run.
    Before,
    /// It did run, and waited for an answer about its output.
    After,
}

/// Writes what an authorization came to into the result, and records it. What may not be recorded has ended.
pub(super) fn concluded(
    authority: &Authority<'_>,
    came: Came,
    by: &mut Authorized,
    why: Option<&str>,
    when: When,
    trail: &mut Trail,
    doc: &mut ResultDoc,
) -> Settled {
    let settled = settled(came, by, when, doc);
    let left: fn(&ResultDoc) -> Left = match when {
        When::Before => Left::by,
        When::After => Left::refused,
    };
    let recorded = trail.asked(doc, std::mem::take(&mut by.events)).and_then(|()| match settled {
        Settled::Ended => aftermath::remember(authority, by, &left(doc), trail, doc),
        _ => Ok(()),
    });
    let asked = Asked {
        words: by.argv.iter().flatten().map(|w| w.as_bytes()).collect(),
        command: by.command.as_deref().filter(|_| by.argv.is_none()),
        why,
    };
    let ended = !matches!(settled, Settled::Runs(_));
    if let Err(error) = recorded.and_then(|()| trail.decided(doc, &asked, ended)) {
        if matches!(settled, Settled::Gives(_)) {
            doc.conceal();
        }
        trail::unrecorded(doc, &error);
        if matches!(settled, Settled::Runs(_)) {
            // It does not run after all: that is its end. What cannot be kept of it either is found by the next call.
            let _ = aftermath::remember(authority, by, &Left::by(doc), trail, doc);
        }
        return Settled::Ended;
    }
    if let Settled::Gives(result) = &settled {
        doc.with_output(result);
    }
    settled
}

/// Writes what an authorization came to into the result.
pub(super) fn settled(came: Came, by: &mut Authorized, when: When, doc: &mut ResultDoc) -> Settled {
    doc.asked_by(&by.asker);
    doc.checked(std::mem::take(&mut by.findings));
    doc.warnings.append(&mut by.warnings);
    doc.approval = by.approval.take();
    doc.tool = by.tool.take().or(doc.tool.take());
    if let Some(argv) = &by.argv {
        doc.of_words(argv);
    }
    match came {
        Came::To(decision) => match (*decision, when) {
            (Decision::Deny(denial), When::After) => {
                doc.barred(&denial);
                Settled::Ended
            }
            (decision, _) => settle(decision, by.advice.as_deref(), doc),
        },
        Came::Cancelled(signal) => {
            doc.cancelled(signal);
            Settled::Ended
        }
        Came::Gives(result) => {
            doc.hands_out(&result);
            Settled::Gives(result)
        }
        Came::Withholds(result, why) => {
            doc.hands_out(&result);
            doc.withheld(&why);
            doc.conceal();
            Settled::Waits
        }
    }
}

/// Writes the decision into the result.
fn settle(decision: Decision, advice: Option<&str>, doc: &mut ResultDoc) -> Settled {
    match decision {
        Decision::Allow(grant) => {
            doc.granted(&grant);
            return Settled::Runs(Box::new(grant));
        }
        Decision::Ask(grant) => doc.needs_approval(&grant, advice),
        Decision::Deny(denial) => doc.refused(&denial, Status::Denied),
        Decision::NotFound(denial) => doc.refused(&denial, Status::NotFound),
        Decision::NotExecutable(denial) => doc.refused(&denial, Status::ExecFailed),
        Decision::Invalid(denial) => doc.refused(&denial, Status::Error),
    }
    Settled::Ended
}
