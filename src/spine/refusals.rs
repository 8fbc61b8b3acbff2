//! Refusals by what is no rule: a check, a kill switch, the splitting of a command string.

use crate::decision::{Decision, Denial, RuleRef, Stage};
use crate::guard::Objection;
use crate::request::words::WordsError;
use crate::state::{Refusal, StateError};
use crate::switch::Stopped;

/// The refusal by a check.
pub(super) fn objected(objection: &Objection, stage: Stage) -> Denial {
    Denial {
        code: if objection.failed { "check_failed" } else { "check_blocked" },
        stage,
        message: objection.sentence(),
        hint: Some(objection.hint().to_owned()),
        rule: Some(RuleRef { id: objection.check.clone(), at: objection.at.clone() }),
    }
}

/// The refusal by a kill switch.
pub(super) fn denial(stopped: &Stopped) -> Denial {
    Denial {
        code: "kill_switch",
        stage: Stage::KillSwitch,
        message: stopped.sentence(),
        hint: Some(stopped.hint()),
        rule: Some(RuleRef { id: "kill_switch".into(), at: stopped.at.clone() }),
    }
}

/// A command string that could not be split into words.
pub(super) fn unsplit(error: WordsError) -> Decision {
    let denial = |code, message, hint| Denial { code, stage: Stage::Command, message, hint, rule: None };
    match error {
        WordsError::Unparsable { .. } => Decision::Invalid(denial("parse_error", error.to_string(), None)),
        WordsError::Syntax { message, hint, .. } => {
            Decision::Deny(denial("shell_syntax", message, Some(hint)))
        }
    }
}

/// What no policy asks about cannot be answered.
pub(super) fn not_kept() -> Denial {
    Denial {
        code: "approval_unknown",
        stage: Stage::Approval,
        message: "no policy asks about this request, so there is nothing that could be approved".into(),
        hint: Some("leave --approval out".into()),
        rule: None,
    }
}

/// A refusal of the store's as judging makes them.
pub(super) fn refused(refusal: Refusal, stage: Stage) -> Denial {
    Denial {
        code: refusal.code,
        stage,
        message: refusal.message,
        hint: Some(refusal.hint),
        rule: Some(RuleRef { id: refusal.name, at: refusal.at }),
    }
}

/// What cannot be counted is denied: no fresh start, and no run that nobody counted.
pub(super) fn unavailable(error: &StateError, stage: Stage) -> Denial {
    Denial {
        code: error.code(),
        stage,
        message: format!("the state that this decision needs cannot be used: {error}"),
        hint: Some(error.hint()),
        rule: None,
    }
}
