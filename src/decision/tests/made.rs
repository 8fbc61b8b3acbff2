//! Policies made by hand for tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::policy::model::*;
use crate::policy::value::{Pattern, ValueLimits};

pub(in crate::decision) fn words(text: &str) -> Vec<OsString> {
    text.split(' ').filter(|w| !w.is_empty()).map(OsString::from).collect()
}

pub(in crate::decision) fn flag(name: &str) -> Flag {
    Flag { name: name.into(), value: None, allow_dash: false }
}

pub(in crate::decision) fn taking(name: &str, value: ValueLimits) -> Flag {
    Flag { name: name.into(), value: Some(value), allow_dash: false }
}

pub(in crate::decision) fn any() -> ValueLimits {
    ValueLimits::default()
}

pub(in crate::decision) fn pattern(source: &str) -> ValueLimits {
    ValueLimits { pattern: Some(Pattern::new(source)), ..ValueLimits::default() }
}

pub(in crate::decision) fn choices(of: &[&str]) -> ValueLimits {
    let choices = of.iter().map(|c| (*c).to_string()).collect();
    ValueLimits { choices: Some(choices), ..ValueLimits::default() }
}

pub(in crate::decision) fn range(min: i64, max: i64) -> ValueLimits {
    ValueLimits {
        min_value: Some(min.to_string()),
        max_value: Some(max.to_string()),
        ..ValueLimits::default()
    }
}

pub(in crate::decision) fn operand(value: ValueLimits) -> Operand {
    Operand { value, optional: false, repeat: false, allow_dash: false }
}

pub(in crate::decision) fn repeated(value: ValueLimits) -> Operand {
    Operand { repeat: true, ..operand(value) }
}

/// Flags by name; one that ends in `:` takes any value.
pub(in crate::decision) fn flags(names: &str) -> Option<Vec<Flag>> {
    let made = |n: &str| n.strip_suffix(':').map_or_else(|| flag(n), |name| taking(name, any()));
    Some(names.split(' ').filter(|n| !n.is_empty()).map(made).collect())
}

pub(in crate::decision) fn subcommands(names: &str) -> Option<Vec<String>> {
    Some(names.split(' ').map(String::from).collect())
}

pub(in crate::decision) fn place(line: u32) -> Place {
    Place { file: Arc::from(Path::new("/etc/guardexec/policy.toml")), line }
}

/// A rule for bare names (or absolute paths) separated by blanks, named after them.
pub(in crate::decision) fn rule(decision: Verdict, programs: &str, args: ArgRules) -> Rule {
    let name = |p: &str| {
        if p.starts_with('/') { ProgramName::Absolute(p.into()) } else { ProgramName::Bare(p.into()) }
    };
    Rule {
        id: format!("{}:{programs}", decision.as_str()),
        at: place(1),
        programs: programs.split(' ').map(name).collect(),
        decision,
        reason: None,
        agents: None,
        args,
        sha256: None,
        runs_arguments: false,
        own: Own::default(),
        examples: Vec::new(),
    }
}

pub(in crate::decision) fn allow(programs: &str) -> Rule {
    rule(Verdict::Allow, programs, ArgRules::default())
}

pub(in crate::decision) fn policy(rules: Vec<Rule>) -> Policy {
    Policy {
        path: Arc::from(Path::new("/etc/guardexec/policy.toml")),
        sources: Vec::new(),
        rules,
        tools: Default::default(),
        limits: Limits::default(),
        env: EnvPolicy::default(),
        syntax: Syntax::default(),
        sandbox: SandboxPolicy { profile: Some(Profile::Host), ..SandboxPolicy::default() },
        filesystem: Filesystem { cwd: Some(vec![PathBuf::from("/usr")]), ..Filesystem::default() },
        network: Network::default(),
        audit: None,
    }
}
