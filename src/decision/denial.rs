//! Making refusals: every one with a stable code, a sentence, the rule's place and what to do instead.

use super::{Decision, Denial, Judged, RuleRef, Stage};
use crate::decision::shown::repr;
use crate::policy::model::Rule;
use crate::request::quote::escape_text;

impl Denial {
    pub(super) fn new(stage: Stage, code: &'static str, message: impl Into<String>) -> Denial {
        Denial { code, stage, message: message.into(), hint: None, rule: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Denial {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn by(mut self, rule: &Rule) -> Denial {
        self.rule = Some(RuleRef::of(rule));
        self
    }

    /// As the end of judging: refused.
    pub(super) fn deny<T>(self) -> Judged<T> {
        Err(Box::new(Decision::Deny(self)))
    }

    /// As the end of judging: the request cannot be judged at all.
    pub(super) fn invalid<T>(self) -> Judged<T> {
        Err(Box::new(Decision::Invalid(self)))
    }
}

impl RuleRef {
    pub(super) fn of(rule: &Rule) -> RuleRef {
        RuleRef { id: rule.id.clone(), at: rule.at.clone() }
    }
}

/// The rule in a sentence: `rule 'no-rm' (/etc/guardexec/policy.toml:12)`, and its reason where it has one.
pub(super) fn said_by(rule: &Rule) -> String {
    let place = escape_text(&rule.at.to_string());
    match &rule.reason {
        None => format!("rule {} ({place})", repr(rule.id.as_bytes())),
        Some(reason) => format!("rule {} ({place}): {}", repr(rule.id.as_bytes()), escape_text(reason)),
    }
}
