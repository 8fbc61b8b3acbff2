//! Policies made by hand for tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::decision::{Decision, Denial, Facts, Grant, decide};
use crate::policy::model::*;
use crate::policy::value::{Pattern, ValueLimits};
use crate::request::Request;

pub(in crate::decision) fn words(text: &str) -> Vec<OsString> {
    text.split(' ').filter(|w| !w.is_empty()).map(OsString::from).collect()
}

pub(in crate::decision) fn flag(name: &str) -> Flag {
    Flag { name: name.into(), value: None, allow_dash: false }
}

pub(in crate::decision) fn taking(name: &str, value: ValueLimits) -> Flag {
    Flag { name: name.into(), value: Some(value.into()), allow_dash: false }
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
        own: OwnOrNone::default(),
        examples: Vec::new(),
    }
}

pub(in crate::decision) fn allow(programs: &str) -> Rule {
    rule(Verdict::Allow, programs, ArgRules::default())
}

pub(in crate::decision) fn policy(rules: Vec<Rule>) -> Policy {
    Policy {
        identity: (0, 0),
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
        oversight: Default::default(),
    }
}

/// A caller without environment, started in `/usr`, at home in `/usr/share`.
pub(in crate::decision) fn facts() -> Facts {
    Facts {
        env: Vec::new(),
        start_dir: Some("/usr".into()),
        user: "someone".into(),
        home: "/usr/share".into(),
        agent: None,
    }
}

/// Judges a command line split at blanks.
pub(in crate::decision) fn judged(policies: &[Policy], text: &str) -> Decision {
    decide(policies, words(text), Request::default(), &facts())
}

/// `allow`, `ask`, or the code of the refusal behind its kind: `deny:...`, `error:...`.
pub(in crate::decision) fn outcome(decision: &Decision) -> String {
    match decision {
        Decision::Allow(_) => "allow".into(),
        Decision::Ask(_) => "ask".into(),
        Decision::Deny(d) => format!("deny:{}", d.code),
        Decision::NotFound(d) | Decision::NotExecutable(d) => d.code.into(),
        Decision::Invalid(d) => format!("error:{}", d.code),
    }
}

/// The grant of a decision that has one.
pub(in crate::decision) fn granted(decision: Decision) -> Grant {
    match decision {
        Decision::Allow(grant) | Decision::Ask(grant) => grant,
        other => panic!("no grant: {other:?}"),
    }
}

/// The denial of a decision that has one.
pub(in crate::decision) fn refused(decision: Decision) -> Denial {
    match decision {
        Decision::Deny(d) | Decision::NotFound(d) | Decision::NotExecutable(d) | Decision::Invalid(d) => d,
        other => panic!("no refusal: {other:?}"),
    }
}

/// A directory of the test's own, removed at its end.
pub(in crate::decision) struct Dir(pub PathBuf);

impl Dir {
    pub(in crate::decision) fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("guardexec-decision-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("create");
        Dir(std::fs::canonicalize(dir).expect("canonical"))
    }

    /// An executable below the directory.
    pub(in crate::decision) fn program(&self, name: &str, content: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("create");
        std::fs::write(&path, content).expect("write");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        path
    }

    /// A policy that looks programs up in `bin` below the directory.
    pub(in crate::decision) fn policy(&self, rules: Vec<Rule>) -> Policy {
        self.policy_in("bin", rules)
    }

    pub(in crate::decision) fn policy_in(&self, bin: &str, rules: Vec<Rule>) -> Policy {
        let mut policy = policy(rules);
        policy.env.set.insert("PATH".into(), self.0.join(bin).display().to_string());
        policy
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
