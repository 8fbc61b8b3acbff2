//! What a policy wants of the kernel: profile, layers, paths, network.

use std::path::PathBuf;

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
