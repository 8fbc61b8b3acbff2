//! The compiled policy: what the rest of the program reads.
//!
//! The TOML shape lives in `schema`; here every duration is a [`Duration`], every size a number of bytes,
//! every path absolute. A value that is `None` was not written and takes its default in [`Limits::effective`]
//! or where it is used.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::value::ValueLimits;

pub use crate::request::words::Syntax;

/// Where something stands in a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named or found.
    pub file: Arc<Path>,
    /// The line, counted from 1.
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

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
}

/// One file that was read for a policy.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its path (canonical).
    pub path: Arc<Path>,
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
    pub own: Own,
    /// Commands that must and must not match.
    pub examples: Vec<Example>,
}

/// A rule's own settings; each overrides its file's default.
#[derive(Debug, Default)]
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
    pub value: Option<ValueLimits>,
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

/// A limit that was written: a figure, or the word `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound<T> {
    /// At most this much.
    At(T),
    /// Lifted by the policy.
    Lifted,
}

impl<T: Ord + Copy> Bound<T> {
    /// The tighter of two.
    pub fn tighter(self, other: Bound<T>) -> Bound<T> {
        match (self, other) {
            (Bound::At(a), Bound::At(b)) => Bound::At(a.min(b)),
            (Bound::At(a), Bound::Lifted) | (Bound::Lifted, Bound::At(a)) => Bound::At(a),
            (Bound::Lifted, Bound::Lifted) => Bound::Lifted,
        }
    }

    /// The figure, unless lifted.
    pub fn get(self) -> Option<T> {
        match self {
            Bound::At(v) => Some(v),
            Bound::Lifted => None,
        }
    }
}

/// `[limits]` as written; `None` where a key is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of the whole tree.
    pub wall_time: Option<Bound<Duration>>,
    /// Processor time of the whole tree.
    pub cpu_time: Option<Bound<Duration>>,
    /// Memory in bytes.
    pub memory: Option<Bound<u64>>,
    /// Tasks (processes and threads) of this run.
    pub pids: Option<Bound<u64>>,
    /// Bytes kept of each output stream.
    pub output: Option<Bound<u64>>,
    /// Bytes of one written file.
    pub file_size: Option<Bound<u64>>,
    /// Open descriptors of one process.
    pub open_files: Option<Bound<u64>>,
    /// Time between TERM and KILL at `wall_time`.
    pub kill_grace: Option<Duration>,
    /// Processors the run may use.
    pub cpus: Option<Bound<u64>>,
}

/// `[limits]` with every default filled in: what a run is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveLimits {
    /// Wall-clock time; default 60 s.
    pub wall_time: Bound<Duration>,
    /// Processor time; default 60 s.
    pub cpu_time: Bound<Duration>,
    /// Bytes; default 1 GiB.
    pub memory: Bound<u64>,
    /// Tasks; default 256.
    pub pids: Bound<u64>,
    /// Bytes per stream; default 64 KiB. Lifted means 64 MiB are kept (memory stays bounded).
    pub output: Bound<u64>,
    /// Bytes; default 1 GiB.
    pub file_size: Bound<u64>,
    /// Descriptors; default 1024.
    pub open_files: Bound<u64>,
    /// Default 500 ms.
    pub kill_grace: Duration,
    /// Default: lifted.
    pub cpus: Bound<u64>,
}

impl Limits {
    /// `self` where it says something, else `base` (a rule's own limits over its file's).
    pub fn over(&self, base: &Limits) -> Limits {
        Limits {
            wall_time: self.wall_time.or(base.wall_time),
            cpu_time: self.cpu_time.or(base.cpu_time),
            memory: self.memory.or(base.memory),
            pids: self.pids.or(base.pids),
            output: self.output.or(base.output),
            file_size: self.file_size.or(base.file_size),
            open_files: self.open_files.or(base.open_files),
            kill_grace: self.kill_grace.or(base.kill_grace),
            cpus: self.cpus.or(base.cpus),
        }
    }

    /// Every missing key at its default.
    pub fn effective(&self) -> EffectiveLimits {
        const GIB: u64 = 1 << 30;
        EffectiveLimits {
            wall_time: self.wall_time.unwrap_or(Bound::At(Duration::from_secs(60))),
            cpu_time: self.cpu_time.unwrap_or(Bound::At(Duration::from_secs(60))),
            memory: self.memory.unwrap_or(Bound::At(GIB)),
            pids: self.pids.unwrap_or(Bound::At(256)),
            output: self.output.unwrap_or(Bound::At(64 << 10)),
            file_size: self.file_size.unwrap_or(Bound::At(GIB)),
            open_files: self.open_files.unwrap_or(Bound::At(1024)),
            kill_grace: self.kill_grace.unwrap_or(Duration::from_millis(500)),
            cpus: self.cpus.unwrap_or(Bound::Lifted),
        }
    }
}

impl EffectiveLimits {
    /// The tighter of two, key by key.
    pub fn tighter(&self, other: &EffectiveLimits) -> EffectiveLimits {
        EffectiveLimits {
            wall_time: self.wall_time.tighter(other.wall_time),
            cpu_time: self.cpu_time.tighter(other.cpu_time),
            memory: self.memory.tighter(other.memory),
            pids: self.pids.tighter(other.pids),
            output: self.output.tighter(other.output),
            file_size: self.file_size.tighter(other.file_size),
            open_files: self.open_files.tighter(other.open_files),
            kill_grace: self.kill_grace.min(other.kill_grace),
            cpus: self.cpus.tighter(other.cpus),
        }
    }
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

/// `[sandbox] profile`. The order is the strictness: `Strict` is the greatest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Limits only; the user is not changed.
    Host,
    /// The working directory is writable, system programs may be started.
    Workspace,
    /// The least that lets ordinary programs run.
    #[default]
    Strict,
}

impl Profile {
    /// The word used in policies and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Host => "host",
            Profile::Workspace => "workspace",
            Profile::Strict => "strict",
        }
    }
}

/// A layer of confinement, as `require`, `enforced` and `missing` name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// What can be read and written.
    Filesystem,
    /// What can be reached.
    Network,
    /// Which system calls work.
    Syscalls,
    /// What may be executed.
    Execution,
    /// As whom the run runs.
    Identity,
    /// The private temporary directory.
    Tmp,
    /// How the process tree is held.
    Processes,
}

impl Layer {
    /// All layers in the order in which results list them.
    pub const ALL: [Layer; 7] = [
        Layer::Filesystem,
        Layer::Network,
        Layer::Syscalls,
        Layer::Execution,
        Layer::Identity,
        Layer::Tmp,
        Layer::Processes,
    ];

    /// The word used in policies and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Layer::Filesystem => "filesystem",
            Layer::Network => "network",
            Layer::Syscalls => "syscalls",
            Layer::Execution => "execution",
            Layer::Identity => "identity",
            Layer::Tmp => "tmp",
            Layer::Processes => "processes",
        }
    }
}

/// `[sandbox] processes`: how the process tree is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TreeKind {
    /// A PID namespace where one can be had, and a cgroup where it makes a limit exact; without a namespace a
    /// cgroup; with neither supervised process groups.
    #[default]
    Auto,
    /// A PID namespace, or nothing runs.
    Namespace,
    /// A cgroup of version 2, beside a PID namespace where one can be had, or nothing runs.
    Cgroup,
    /// A PID namespace and a cgroup, or nothing runs.
    Both,
    /// Supervised process groups: the run sees the host's processes.
    Groups,
}

impl TreeKind {
    /// Nothing runs without a PID namespace.
    pub fn demands_namespace(self) -> bool {
        matches!(self, TreeKind::Namespace | TreeKind::Both)
    }

    /// Nothing runs without a cgroup.
    pub fn demands_cgroup(self) -> bool {
        matches!(self, TreeKind::Cgroup | TreeKind::Both)
    }
}

/// `[sandbox]`.
#[derive(Debug, Clone, Default)]
pub struct SandboxPolicy {
    /// `profile`; `None` means `strict`.
    pub profile: Option<Profile>,
    /// `require`; `None` means the profile's default.
    pub require: Option<Vec<Layer>>,
    /// `user`: `None` or `auto`, else a user name.
    pub user: Option<String>,
    /// `processes`.
    pub processes: Option<TreeKind>,
}

/// `[filesystem]`. Paths are absolute; `None` where a key is missing.
#[derive(Debug, Clone, Default)]
pub struct Filesystem {
    /// Where a run may start, and below. `None`: where guardexec was started, and below.
    pub cwd: Option<Vec<PathBuf>>,
    /// Readable besides the profile's own list.
    pub read: Option<Vec<PathBuf>>,
    /// Writable.
    pub write: Option<Vec<PathBuf>>,
    /// Neither readable nor writable, also inside the lists above.
    pub deny: Option<Vec<PathBuf>>,
    /// Size of the private tmp in bytes.
    pub tmp: Option<u64>,
    /// Directories shown elsewhere, read-only: (where the run sees it, what it is on the host).
    pub map: Vec<(PathBuf, PathBuf)>,
}

/// `[network] mode`. The order is the strictness: `None` is the greatest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkMode {
    /// The host's network.
    Host,
    /// No network.
    #[default]
    None,
}

/// `[network]`.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// `mode`; `None` (missing) means none under `strict` and `workspace`, host under `host`.
    pub mode: Option<NetworkMode>,
    /// A private loopback interface.
    pub loopback: bool,
    /// Unix sockets that may be connected to.
    pub unix: Vec<PathBuf>,
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

/// `[tools.NAME]`.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub at: Place,
    /// For the model.
    pub description: String,
    /// The argv template.
    pub argv: Vec<String>,
    /// `params.NAME`, in file order.
    pub params: Vec<Param>,
    /// What a call of it is decided as.
    pub decision: Verdict,
    /// The author's reason.
    pub reason: Option<String>,
    /// Only for these askers.
    pub agents: Option<Vec<String>>,
    /// Its own limits.
    pub limits: Limits,
}

/// One parameter of a tool.
#[derive(Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ParamType,
    /// It may be missing.
    pub required: bool,
    /// What it is when missing.
    pub default: Option<serde_json::Value>,
    /// What its value must satisfy.
    pub value: ValueLimits,
}

/// The type of a tool's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A decimal number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list of texts.
    Array,
}
