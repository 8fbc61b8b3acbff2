//! The compiled policy: what the rest of the program reads.
//!
//! The TOML shape lives in `schema`; here every duration is a [`Duration`], every size a number of bytes,
//! every path absolute. A value that is `None` was not written and takes its default in [`Limits::effective`]
//! or where it is used.

mod confine;
mod limits;
mod oversight;
mod tool;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub use confine::{Filesystem, Layer, Network, NetworkMode, Profile, SandboxPolicy, TreeKind};
pub use limits::{Bound, EffectiveLimits, Limits, MAX_OUTPUT};
pub use oversight::{
    Alert, AlertOn, ApprovalPolicy, AskBy, Check, CheckOn, HaltOn, Hook, KillSwitch, Measure, Oversight,
    Rate, RateKey, SessionPolicy, Severity, StatePolicy,
};
pub use tool::{Action, ActionKind, Param, ParamType, Tool, ToolOutput};

use super::error::Spot;
use super::value::ValueLimits;

pub use super::place::Place;
pub use crate::request::words::Syntax;

/// A rule's or a request's decision. The order is the strictness: `Deny` is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The request may run.
    Allow,
    /// A person has to approve it first.
    Ask,
    /// The request must not run.
    Deny,
}

impl Verdict {
    /// The word used in policies, results and audit records.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        }
    }
}

/// One policy file together with all that it `extends`.
#[derive(Debug)]
pub struct Policy {
    /// The file itself (canonical path).
    pub path: Arc<Path>,
    /// The same by device and inode.
    pub identity: (u64, u64),
    /// Every file read for it, the parents of `extends` first and the file itself last.
    pub sources: Vec<Source>,
    /// All rules, the short `allow`/`deny` lists included, in file order.
    pub rules: Vec<Rule>,
    /// `[tools.NAME]`, by name.
    pub tools: BTreeMap<String, Tool>,
    /// `[limits]`.
    pub limits: Limits,
    /// `[env]`.
    pub env: EnvPolicy,
    /// `[command] syntax`.
    pub syntax: Syntax,
    /// `[sandbox]`.
    pub sandbox: SandboxPolicy,
    /// `[filesystem]`.
    pub filesystem: Filesystem,
    /// `[network]`.
    pub network: Network,
    /// `[audit]`.
    pub audit: Option<AuditPolicy>,
    /// The switch, approvals, counters, sessions, checks and alerts.
    pub oversight: Oversight,
}

impl Policy {
    /// The line that a place names, for a message with an excerpt; `None` if it is in no file of this policy.
    pub fn spot(&self, place: &Place) -> Option<Spot> {
        let source = self.sources.iter().find(|s| s.shown == place.file)?;
        let before = usize::try_from(place.line.checked_sub(1)?).ok()?;
        let start = match before {
            0 => 0,
            n => source.text.match_indices('\n').nth(n - 1)?.0 + 1,
        };
        let line = source.text.get(start..)?.split('\n').next()?;
        let indent = line.len() - line.trim_start().len();
        let span = start + indent..start + line.trim_end().len().max(indent);
        Some(Spot { place: place.clone(), text: Arc::clone(&source.text), span })
    }
}

/// One file that was read for a policy.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its path (canonical).
    pub path: Arc<Path>,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// The name under which a [`Place`] speaks of it.
    pub shown: Arc<Path>,
    /// SHA-256 of its bytes, lower-case hex.
    pub sha256: String,
    /// Its text, kept for excerpts in messages.
    pub text: Arc<str>,
}

/// How a rule names a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProgramName {
    /// A bare name, looked up in the policy's `PATH`.
    Bare(OsString),
    /// An absolute path.
    Absolute(PathBuf),
}

impl ProgramName {
    /// The text as it stands in the policy.
    pub fn as_os_str(&self) -> &OsStr {
        match self {
            ProgramName::Bare(name) => name,
            ProgramName::Absolute(path) => path.as_os_str(),
        }
    }

    /// The name without its directory.
    pub fn base(&self) -> &OsStr {
        match self {
            ProgramName::Bare(name) => name,
            ProgramName::Absolute(path) => path.file_name().unwrap_or(path.as_os_str()),
        }
    }
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Unique within the policy. For an entry of the short lists: `allow:NAME` or `deny:NAME`.
    pub id: String,
    /// Where it stands.
    pub at: Place,
    /// The programs it speaks of; `*` never stands here.
    pub programs: Vec<ProgramName>,
    /// What it decides.
    pub decision: Verdict,
    /// The author's reason, shown wherever the rule decides.
    pub reason: Option<String>,
    /// Only for these askers (`None`: for all).
    pub agents: Option<Vec<String>>,
    /// What it says of the words after the program.
    pub args: ArgRules,
    /// The pinned SHA-256 of the program, lower-case hex.
    pub sha256: Option<String>,
    /// The author knows that the program runs its arguments.
    pub runs_arguments: bool,
    /// Settings for this rule alone.
    pub own: OwnOrNone,
    /// Commands that must and must not match.
    pub examples: Vec<Example>,
}

/// A rule's or a tool's own settings; each overrides its file's default.
#[derive(Debug, Default, Clone)]
pub struct Own {
    /// `limits`.
    pub limits: Limits,
    /// `env`.
    pub env: Option<EnvPolicy>,
    /// `filesystem`.
    pub filesystem: Option<Filesystem>,
    /// `network`.
    pub network: Option<Network>,
    /// `exec`: what the run may start.
    pub exec: Option<Vec<ProgramName>>,
}

/// [`Own`] as most rules have it: not at all. One word then, and read as if nothing were set.
#[derive(Debug, Default, Clone)]
pub struct OwnOrNone(Option<Box<Own>>);

impl From<Own> for OwnOrNone {
    fn from(own: Own) -> OwnOrNone {
        OwnOrNone(Some(Box::new(own)))
    }
}

impl Deref for OwnOrNone {
    type Target = Own;

    fn deref(&self) -> &Own {
        static NONE: LazyLock<Own> = LazyLock::new(Own::default);
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for OwnOrNone {
    fn deref_mut(&mut self) -> &mut Own {
        self.0.get_or_insert_default()
    }
}

/// What a rule says of the words after the program. `None` means the key was not written.
#[derive(Debug, Default)]
pub struct ArgRules {
    /// `subcommand`.
    pub subcommand: Option<Vec<String>>,
    /// `flags`, after the subcommand.
    pub flags: Option<Vec<Flag>>,
    /// `global_flags`, before it.
    pub global_flags: Option<Vec<Flag>>,
    /// `operands`, positional.
    pub operands: Option<Vec<Operand>>,
    /// `max_args`: words after the program.
    pub max_args: Option<usize>,
}

impl ArgRules {
    /// Whether any of the keys that close an `allow` rule is present (`max_args` alone closes nothing).
    pub fn closes(&self) -> bool {
        self.subcommand.is_some()
            || self.flags.is_some()
            || self.global_flags.is_some()
            || self.operands.is_some()
    }
}

/// One flag, with its leading dash or dashes.
#[derive(Debug)]
pub struct Flag {
    /// `-n`, `--oneline`, `-name`.
    pub name: String,
    /// `Some` where the flag takes a value.
    pub value: Option<Box<ValueLimits>>,
    /// A separate value may start with `-`.
    pub allow_dash: bool,
}

/// One positional operand.
#[derive(Debug)]
pub struct Operand {
    /// What its value must satisfy.
    pub value: ValueLimits,
    /// It may be missing.
    pub optional: bool,
    /// It may stand any number of times (only the last operand).
    pub repeat: bool,
    /// It may start with `-` without a `--` before it.
    pub allow_dash: bool,
}

/// A command that stands in a rule's `examples`.
#[derive(Debug, Clone)]
pub struct Example {
    /// The decision that judging it must give. `Deny` means: not allowed and not asked.
    pub expect: Verdict,
    /// The command.
    pub command: ExampleCommand,
    /// Where it stands.
    pub at: Place,
}

/// The two ways to write an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExampleCommand {
    /// A command string, split as `--command` is.
    Line(String),
    /// The words themselves.
    Words(Vec<String>),
}

/// `[env]`. `None` where a key is missing.
#[derive(Debug, Clone, Default)]
pub struct EnvPolicy {
    /// Names (or globs with `*`) passed from the caller.
    pub pass: Option<Vec<String>>,
    /// Names (or globs) that `--env` may set.
    pub request: Option<Vec<String>>,
    /// Set by the policy. `PATH` is the search path for programs.
    pub set: BTreeMap<String, String>,
}

/// `[audit]`.
#[derive(Debug, Clone)]
pub struct AuditPolicy {
    /// The JSON Lines file.
    pub file: PathBuf,
    /// Start a new file at this size in bytes.
    pub rotate: Option<u64>,
    /// Where the section stands.
    pub at: Place,
}
