//! Refusals by what is no rule: a check, a kill switch, the splitting of a command string.

use crate::decision::{Decision, Denial, RuleRef, Stage};
use crate::guard::Objection;
use crate::request::words::WordsError;
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
