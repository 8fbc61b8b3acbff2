//! Who asks, as far as it decides anything.
//!
//! A rule with `agents` counts for the askers it names and for all below them. What is below can only have less:
//! `builder/x` gets no rule that grants to it alone and nothing to `builder`.

use super::{Decision, Denial, Facts, Judged, Stage};
use crate::decision::shown::repr;
use crate::policy::model::Rule;
use crate::request::Asker;

/// Checks the asker's names and binds them to the inherited one.
///
/// # Errors
/// The decision that ends judging: a name that cannot be one, or that the inherited one does not allow.
pub fn settle(asker: &mut Asker, inherited: Option<&str>) -> Judged<()> {
    if let Err(error) = asker.check() {
        return Denial::new(Stage::Command, "asker_invalid", error.message)
            .hint("use short, printable names without control characters")
            .invalid();
    }
    if let Some(agent) = asker.agent.as_ref().filter(|a| a.split('/').any(str::is_empty)) {
        let message = format!("agent {} has an empty part", repr(agent.as_bytes()));
        return Denial::new(Stage::Command, "asker_invalid", message)
            .hint("write it as parent/child")
            .invalid();
    }
    match inherited.map(|name| asker.bind(name)) {
        Some(Err(error)) => Denial::new(Stage::Command, "agent_denied", error.message)
            .hint("leave --agent out, or add /NAME to the inherited agent")
            .deny(),
        _ => Ok(()),
    }
}

/// The asker that a verb answers for, bound to the inherited one.
///
/// # Errors
/// One sentence on why there can be no such asker.
pub fn asker_of(named: Option<&str>, facts: &Facts) -> Result<Option<String>, String> {
    let mut asker = Asker { agent: named.map(str::to_owned), ..Asker::default() };
    match settle(&mut asker, facts.agent.as_deref()).map_err(|ended| *ended) {
        Ok(()) => Ok(asker.agent),
        Err(Decision::Deny(denial) | Decision::Invalid(denial)) => Err(denial.message),
        Err(other) => Err(format!("{other:?}")),
    }
}

/// Whether the rule speaks of this asker. Without an asker, rules for certain agents do not count.
pub(super) fn covers(rule: &Rule, agent: Option<&str>) -> bool {
    listed(rule.agents.as_deref(), agent)
}

/// Whether a list of askers speaks of this one; no list speaks of all.
pub fn listed(agents: Option<&[String]>, agent: Option<&str>) -> bool {
    let Some(listed) = agents else { return true };
    let Some(agent) = agent else { return false };
    listed.iter().any(|name| {
        agent.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Whether the rule grants something to this asker: it has to speak of the first of its line already, and with
/// that it speaks of every one between.
pub(super) fn grants(rule: &Rule, agent: Option<&str>) -> bool {
    granted(rule.agents.as_deref(), agent)
}

/// The same of any list of askers.
pub(super) fn granted(agents: Option<&[String]>, agent: Option<&str>) -> bool {
    listed(agents, agent.map(|a| a.split('/').next().unwrap_or(a)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::tests::made::allow;

    fn rule(agents: &[&str]) -> Rule {
        Rule { agents: Some(agents.iter().map(|a| (*a).to_string()).collect()), ..allow("x") }
    }

    fn named(agent: &str) -> Asker {
        Asker { agent: Some(agent.into()), ..Asker::default() }
    }

    #[test]
    fn a_name_covers_itself_and_what_is_below() {
        let r = rule(&["builder", "ci/deploy"]);
        for agent in ["builder", "builder/x", "builder/x/y", "ci/deploy", "ci/deploy/x"] {
            assert!(covers(&r, Some(agent)), "{agent}");
        }
        for agent in ["builder2", "ci", "ci/x", "x/builder", "Builder", ""] {
            assert!(!covers(&r, Some(agent)), "{agent}");
        }
        assert!(!covers(&r, None) && covers(&allow("x"), None));
    }

    #[test]
    fn a_child_has_at_most_what_its_parent_has() {
        assert!(!grants(&rule(&["parent/child"]), Some("parent/child")));
        assert!(grants(&rule(&["parent"]), Some("parent/child")));
    }

    #[test]
    fn the_inherited_agent_binds() {
        let mut asker = Asker::default();
        settle(&mut asker, Some("parent")).expect("takes the name");
        assert_eq!(asker.agent.as_deref(), Some("parent"));
        assert!(settle(&mut named("parent/child"), Some("parent")).is_ok());
        for agent in ["other", "parent2", "paren", "child/parent"] {
            let stopped = settle(&mut named(agent), Some("parent")).expect_err(agent);
            assert!(matches!(*stopped, Decision::Deny(Denial { code: "agent_denied", .. })), "{agent}");
        }
    }

    #[test]
    fn control_characters_and_empty_parts_are_invalid() {
        for agent in ["a\nb", "a\u{202e}", "", "a//b", "/a", "a/"] {
            let stopped = settle(&mut named(agent), None).expect_err(agent);
            assert!(matches!(*stopped, Decision::Invalid(_)), "{agent:?}");
        }
        let mut asker = Asker::default();
        asker.labels.insert("k".into(), "v\u{1b}[2K".into());
        assert!(settle(&mut asker, None).is_err());
    }
}
