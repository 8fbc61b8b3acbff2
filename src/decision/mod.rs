//! Judging: from policy and request to a decision. Nothing here runs or writes anything; what it reads of the disk
//! is the program, the working directory, and the paths that `path` limits speak of.
//!
//! A denial is a value, not an error: it carries a stable code, one sentence, the rule's place and what to do
//! instead. Only this room makes a [`Grant`], one for a program that the policy itself names included.

mod arguments;
mod asker;
mod closed;
mod command;
mod cwd;
mod denial;
mod environment;
mod examples;
mod globs;
mod hooked;
mod judge;
mod listed;
mod open;
mod paths;
mod script;
mod settle;
mod shown;
mod sizes;
mod spelling;
#[cfg(test)]
mod tests;
mod tool;
mod values;
mod word;

use std::ffi::{CString, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::policy::model::{
    EffectiveLimits, EnvPolicy, Filesystem, Layer, Network, NetworkMode, Place, Policy, Profile, ProgramName,
    Rule, TreeKind, Verdict,
};
use crate::program::Program;
use crate::request::Stdin;

pub use asker::{asker_of, listed, settle as settle_asker};
pub use command::policy_path;
pub use environment::clean_environment;
pub use examples::{ExampleFailure, Split, run_examples};
pub(crate) use hooked::{Hooked, for_hook};
pub use judge::{PRIVATE_TMP, decide, decide_with};
pub use tool::{ActionCall, Called, INVALID_ARGUMENTS, Offered, ToolCall, called, decide_called, offered};

/// Judging goes on with a value, or ends with a decision.
type Judged<T> = Result<T, Box<Decision>>;

/// One thing that judging found, for `explain`.
#[derive(Debug, Clone)]
pub struct Step {
    /// `request`, `command`, `program`, `arguments`, `environment`, `cwd`, `limits`, `decision`.
    pub stage: &'static str,
    /// A word or two: `allow`, `deny`, `found`, ...
    pub outcome: String,
    /// What exactly; safe to print.
    pub detail: String,
    /// The rule it comes from, where it comes from one.
    pub rule: Option<RuleRef>,
}

/// A rule of the deciding strength, with the policy it stands in: what may tighten a grant.
#[derive(Debug, Clone, Copy)]
struct Match<'p> {
    policy: &'p Policy,
    rule: &'p Rule,
}

impl<'p> Match<'p> {
    /// The rule's own paths, key by key, over its file's.
    fn filesystem(&self) -> Filesystem {
        let file = &self.policy.filesystem;
        let Some(own) = &self.rule.own.filesystem else { return file.clone() };
        let pick =
            |own: &Option<Vec<PathBuf>>, file: &Option<Vec<PathBuf>>| own.clone().or_else(|| file.clone());
        let mut deny = own.deny.clone().unwrap_or_default();
        // A rule may widen its file's defaults, but what a file denies stays denied.
        deny.extend(file.deny.iter().flatten().cloned());
        Filesystem {
            cwd: pick(&own.cwd, &file.cwd),
            read: pick(&own.read, &file.read),
            write: pick(&own.write, &file.write),
            deny: (own.deny.is_some() || file.deny.is_some()).then_some(deny),
            tmp: own.tmp.or(file.tmp),
            map: if own.map.is_empty() { file.map.clone() } else { own.map.clone() },
        }
    }

    /// The rule's own network, else its file's; a mode the rule does not write is its file's.
    fn network(&self) -> Network {
        let file = &self.policy.network;
        match &self.rule.own.network {
            None => file.clone(),
            Some(own) => Network { mode: own.mode.or(file.mode), ..own.clone() },
        }
    }

    /// The rule's own environment over its file's: lists replace, `set` adds.
    fn env(&self) -> EnvPolicy {
        let file = &self.policy.env;
        let Some(own) = &self.rule.own.env else { return file.clone() };
        let mut set = file.set.clone();
        set.extend(own.set.clone());
        EnvPolicy {
            pass: own.pass.clone().or_else(|| file.pass.clone()),
            request: own.request.clone().or_else(|| file.request.clone()),
            set,
        }
    }

    fn profile(&self) -> Profile {
        self.policy.sandbox.profile.unwrap_or_default()
    }
}

/// The rule that decided.
#[derive(Debug, Clone)]
pub struct RuleRef {
    /// Its id.
    pub id: String,
    /// Its place.
    pub at: Place,
}

/// Which stage of judging decided, as results name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The kill switch.
    KillSwitch,
    /// The session.
    Session,
    /// The policy itself (unusable, none found).
    Policy,
    /// Which program.
    Command,
    /// Which arguments, environment, working directory.
    Arguments,
    /// Checks of the policy's own, on the request.
    Input,
    /// Counters.
    Rate,
    /// Asking a person.
    Approval,
    /// Confinement.
    Sandbox,
    /// Checks of the policy's own, on the output.
    Output,
    /// What the workspace protects.
    Workspace,
}

impl Stage {
    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::KillSwitch => "kill_switch",
            Stage::Session => "session",
            Stage::Policy => "policy",
            Stage::Command => "command",
            Stage::Arguments => "arguments",
            Stage::Input => "input",
            Stage::Rate => "rate",
            Stage::Approval => "approval",
            Stage::Sandbox => "sandbox",
            Stage::Output => "output",
            Stage::Workspace => "workspace",
        }
    }
}

/// A refusal: a value that the caller always gets.
#[derive(Debug, Clone)]
pub struct Denial {
    /// Stable, machine-readable: `not_allowlisted`, `flag_not_allowed`, `shell_syntax`, ...
    pub code: &'static str,
    /// Which stage refused.
    pub stage: Stage,
    /// One sentence without the `blocked: ` prefix; safe to print (control characters escaped).
    pub message: String,
    /// What to do instead.
    pub hint: Option<String>,
    /// The rule that refused, where one did.
    pub rule: Option<RuleRef>,
}

/// What judging came to.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// May run.
    Allow(Grant),
    /// A person has to approve it first; the grant is what would run.
    Ask(Grant),
    /// Refused.
    Deny(Denial),
    /// Allowed by name, and no such program in the policy's PATH.
    NotFound(Denial),
    /// Allowed by name, and the file found cannot be executed.
    NotExecutable(Denial),
    /// The request cannot be judged at all (unparsable command, impossible cwd): status `error`, exit 125.
    Invalid(Denial),
}

/// What the policy wants the kernel to enforce on the run.
#[derive(Debug)]
pub struct Wanted {
    /// The strictest profile of all stacked policies.
    pub profile: Profile,
    /// Layers without which nothing may run, by default of the profile or written out.
    pub require: Vec<Layer>,
    /// Whether `require` was written out in any stacked policy.
    pub require_written: bool,
    /// `user`, unless `auto`.
    pub user: Option<String>,
    /// How the tree is held.
    pub processes: TreeKind,
    /// Paths.
    pub filesystem: Filesystem,
    /// Network.
    pub network: NetworkMode,
    /// A private loopback.
    pub loopback: bool,
    /// Unix sockets.
    pub unix: Vec<PathBuf>,
    /// What the run may start; `None` means nothing further under `strict`.
    pub exec: Option<Vec<ProgramName>>,
    /// The policy's search path.
    pub path: Vec<PathBuf>,
}

/// An allowed request with its program opened, its environment, limits and confinement settled.
/// It has no public constructor: only this module makes one.
#[derive(Debug)]
pub struct Grant {
    /// `Allow` or `Ask`.
    pub(crate) verdict: Verdict,
    /// The deciding rule.
    pub(crate) rule: RuleRef,
    /// Every rule that took part in the decision, each once, by its id; a called tool by its name.
    pub(crate) ids: Vec<String>,
    /// Its reason, or a sentence made for it.
    pub(crate) reason: String,
    /// Why the rules want a person to be asked, one sentence each; empty where they do not.
    pub(crate) asks: Vec<String>,
    /// The checks and rates that want it too, each with what it says.
    pub(crate) asked_by: Vec<(RuleRef, String)>,
    /// The call, where a tool was called.
    pub(crate) tool: Option<ToolCall>,
    /// The words, the first as asked for; empty for a built-in action.
    pub(crate) argv: Vec<CString>,
    /// `NAME=VALUE` strings; empty for a built-in action.
    pub(crate) envp: Vec<CString>,
    /// The opened program; `None` for a built-in action, which guardexec does itself.
    pub(crate) program: Option<Program>,
    /// The canonical working directory; of a built-in action its root.
    pub(crate) cwd: PathBuf,
    /// The same, opened (`O_PATH | O_DIRECTORY`).
    pub(crate) cwd_fd: OwnedFd,
    /// Standard input.
    pub(crate) stdin: Stdin,
    /// The tightest limits, `--timeout` included.
    pub(crate) limits: EffectiveLimits,
    /// The confinement wanted.
    pub(crate) wanted: Wanted,
    /// Sentences for the result's `warnings`.
    pub(crate) warnings: Vec<String>,
}

impl Grant {
    /// A later stage wants a person to be asked too, for this reason; what only asks is never weaker than what allows. A rate
    /// may say it again with another figure.
    pub(crate) fn ask_for(&mut self, by: RuleRef, reason: String) {
        self.verdict = Verdict::Ask;
        match self.asked_by.iter_mut().find(|(known, _)| known.id == by.id && known.at == by.at) {
            Some((_, said)) => *said = reason,
            None => self.asked_by.push((by, reason)),
        }
    }

    /// What wants a person to be asked: the rule, else the first check or rate that does.
    pub(crate) fn asker(&self) -> &RuleRef {
        match self.asked_by.first() {
            Some((by, _)) if self.asks.is_empty() => by,
            _ => &self.rule,
        }
    }

    /// Why a person has to be asked, by all that want it.
    pub(crate) fn why(&self) -> String {
        let all: Vec<&str> =
            self.asks.iter().chain(self.asked_by.iter().map(|(_, said)| said)).map(String::as_str).collect();
        if all.is_empty() { self.reason.clone() } else { all.join("; ") }
    }

    /// All who had to be asked have agreed. Only `approval` answers, and what it answers is the asking alone.
    pub(crate) fn approved(mut self) -> Grant {
        self.verdict = Verdict::Allow;
        self
    }
}

/// What judging may know of the caller and the machine.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The caller's environment, malformed and duplicate entries already dropped.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where guardexec was started; `None` when that directory is gone.
    pub start_dir: Option<PathBuf>,
    /// The real user's name.
    pub user: String,
    /// The real user's home, from the user database.
    pub home: PathBuf,
    /// `--timeout` is in the request; this is `$GUARDEXEC_AGENT` where set and not empty.
    pub agent: Option<String>,
}

impl Facts {
    /// A variable of the caller's, where it is set and not empty.
    pub fn variable(&self, name: &[u8]) -> Option<OsString> {
        let (_, value) = self.env.iter().find(|(n, value)| n == name && !value.is_empty())?;
        Some(OsString::from_vec(value.clone()))
    }
}

/// The longest single argument or environment string that `execve` takes, its NUL included
/// (`MAX_ARG_STRLEN`, execve(2)).
pub const MAX_ARG_STRLEN: usize = 131_072;
