//! Which paths a run may see: the profiles' own lists, the policy's lists, and the carving of `deny` out of them.

use std::path::PathBuf;

/// What may be done with a path, and beneath it if it is a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access(u8);

impl Access {
    /// Nothing.
    pub const NONE: Access = Access(0);
    /// Files can be read, directories listed.
    pub const READ: Access = Access(1);
    /// Files can be written, truncated, made, renamed, linked and removed; never device nodes.
    pub const WRITE: Access = Access(2);
    /// Files can be executed. The kernel wants READ for that too.
    pub const EXECUTE: Access = Access(4);
    /// A device that can be written to and answers ioctls.
    pub const DEVICE: Access = Access(8);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// What is left without `other`.
    #[must_use]
    pub const fn without(self, other: Access) -> Access {
        Access(self.0 & !other.0)
    }

    /// Whether any of `other` is in it.
    pub const fn has(self, other: Access) -> bool {
        self.0 & other.0 != 0
    }
}

/// One path of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    /// Absolute.
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
    /// It may be missing on this machine; a missing path that is not optional is an error.
    pub optional: bool,
}

/// All that a run may see and do in the file system.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Paths that exist before the run's own mounts are made.
    pub rules: Vec<PathRule>,
    /// Paths that exist only once the mounts are made, or only in the child (`/proc/self`).
    pub late: Vec<PathRule>,
    /// TCP connect and bind are refused here too, besides the system call filter.
    pub refuse_tcp: bool,
}
