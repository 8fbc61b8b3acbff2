//! Making refusals: every one with a stable code, a sentence, the rule's place and what to do instead.

use super::{Decision, Denial, Judged, RuleRef, Stage};
use crate::decision::shown::repr;
use crate::policy::model::{Place, Rule, Tool};
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

    pub(super) fn by_tool(mut self, tool: &Tool) -> Denial {
        self.rule = Some(RuleRef::of_tool(tool));
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

    pub(super) fn of_tool(tool: &Tool) -> RuleRef {
        RuleRef { id: tool.name.clone(), at: tool.at.clone() }
    }
}

/// The rule in a sentence: `rule 'no-rm' (/etc/guardexec/policy.toml:12)`, and its reason where it has one.
pub(super) fn said_by(rule: &Rule) -> String {
    said("rule", &rule.id, &rule.at, rule.reason.as_deref())
}

/// The same of a tool.
pub(super) fn said_by_tool(tool: &Tool) -> String {
    said("tool", &tool.name, &tool.at, tool.reason.as_deref())
}

fn said(what: &str, id: &str, at: &Place, reason: Option<&str>) -> String {
    let place = escape_text(&at.to_string());
    match reason {
        None => format!("{what} {} ({place})", repr(id.as_bytes())),
        Some(reason) => format!("{what} {} ({place}): {}", repr(id.as_bytes()), escape_text(reason)),
    }
}
