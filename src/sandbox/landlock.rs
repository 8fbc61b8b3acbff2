//! Landlock: a view becomes a ruleset of the kernel, at the best ABI there is.
//!
//! Every right that this kernel's ABI knows is handled, so whatever the view does not grant is refused. Of what an older
//! ABI cannot refuse the system call filter closes what it can: truncation by path (before ABI 3), TCP (4) and the
//! opening of devices for nothing but ioctl (5); signals to processes of the same user and abstract sockets (6) are closed
//! by the filter and the PID namespace as far as these are had.
//!
//! Rules name inodes, not paths: a bind mount of an allowed directory is allowed too, a new file system mounted
//! over it is not. For those there are late rules, added in the new mount namespace. The others are added to the same ruleset
//! by the parent, which has nothing else to do while those mounts are made.
//!
//! Not mediated by any ABI up to 7: stat, readlink, access, chdir, chmod, chown, utime, extended attributes, and
//! connecting to Unix sockets by path (landlock(7)). Mounts, credentials and the filter take care of those.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::raw::{self, Errno, RulesetAttr};
use super::view::{Access, PathRule, View};

/// File system rights (`LANDLOCK_ACCESS_FS_*`, uapi/linux/landlock.h).
mod right {
    pub const EXECUTE: u64 = 1;
    pub const WRITE_FILE: u64 = 1 << 1;
    pub const READ_FILE: u64 = 1 << 2;
    pub const READ_DIR: u64 = 1 << 3;
    pub const REMOVE_DIR: u64 = 1 << 4;
    pub const REMOVE_FILE: u64 = 1 << 5;
    pub const MAKE_DIR: u64 = 1 << 7;
    pub const MAKE_REG: u64 = 1 << 8;
    pub const MAKE_SOCK: u64 = 1 << 9;
    pub const MAKE_FIFO: u64 = 1 << 10;
    pub const MAKE_SYM: u64 = 1 << 12;
    /// ABI 2: link and rename between directories.
    pub const REFER: u64 = 1 << 13;
    /// ABI 3.
    pub const TRUNCATE: u64 = 1 << 14;
    /// ABI 5.
    pub const IOCTL_DEV: u64 = 1 << 15;
    /// All that a rule on a single file may name.
    pub const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
    /// Bits 0 to 12: ABI 1.
    pub const ABI_1: u64 = (1 << 13) - 1;
}

/// `LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP` (ABI 4).
const NET_TCP: u64 = 3;
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL` (ABI 6).
const SCOPES: u64 = 3;

/// Why no ruleset could be prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// This kernel has no Landlock, or it was not enabled at boot, or a filter hides it.
    Unavailable(Errno),
    /// A path that the view needs is missing or cannot be opened.
    Path(PathBuf, Errno),
    /// The kernel refused the ruleset itself.
    Ruleset(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = |errno: &Errno| std::io::Error::from_raw_os_error(*errno);
        match self {
            Error::Unavailable(errno) => write!(f, "this kernel offers no Landlock: {}", cause(errno)),
            Error::Path(path, errno) => {
                write!(
                    f,
                    "cannot grant access to '{}': {}",
                    path.display().to_string().escape_debug(),
                    cause(errno)
                )
            }
            Error::Ruleset(errno) => write!(f, "the kernel refused a Landlock ruleset: {}", cause(errno)),
        }
    }
}

impl std::error::Error for Error {}

/// The ABI of this kernel; 0 where there is no Landlock.
pub fn abi() -> u32 {
    raw::landlock_version().unwrap_or(0)
}

/// A rule, composed.
#[derive(Debug)]
pub struct Rule {
    path: CString,
    dir_rights: u64,
    optional: bool,
}

/// A ruleset, and what has still to be added to it.
#[derive(Debug)]
pub struct Prepared {
    /// The ruleset.
    pub fd: OwnedFd,
    /// Rules for what exists already, to be added by [`Prepared::fill`].
    rules: Vec<Rule>,
    /// Rules for paths that exist only in the run's own mount namespace or in the child, to be added there by [`add_late`].
    pub late: Vec<Rule>,
    /// The ABI it was made for.
    pub abi: u32,
}

impl Prepared {
    /// Makes a ruleset for `view` which grants nothing yet.
    ///
    /// # Errors
    /// [`Error`]: no Landlock, or the kernel's refusal.
    pub fn new(view: &View, abi: u32) -> Result<Prepared, Error> {
        if abi == 0 {
            return Err(Error::Unavailable(raw::landlock_version().err().unwrap_or(libc::ENOSYS)));
        }
        let handled = handled_rights(abi);
        let attr = RulesetAttr {
            fs: handled,
            net: if view.refuse_tcp && abi >= 4 { NET_TCP } else { 0 },
            scoped: if abi >= 6 { SCOPES } else { 0 },
        };
        let size = match abi {
            0..=3 => 8,
            4..=5 => 16,
            _ => 24,
        };
        let fd = raw::landlock_create(&attr, size).map_err(Error::Ruleset)?;
        let composed = |rules: &[PathRule]| -> Result<Vec<Rule>, Error> {
            rules.iter().map(|rule| Rule::new(rule, handled)).collect()
        };
        Ok(Prepared { fd, rules: composed(&view.rules)?, late: composed(&view.late)?, abi })
    }

    /// The same, filled at once.
    ///
    /// # Errors
    /// [`Error`]: what the two can meet.
    pub fn filled(view: &View, abi: u32) -> Result<Prepared, Error> {
        let prepared = Prepared::new(view, abi)?;
        prepared.fill().map(|_| prepared)
    }

    /// Adds the rules for what exists already, but for optional paths that are not there. Gives those.
    ///
    /// # Errors
    /// [`Error::Path`]: a needed path is missing, or the kernel refuses its rule.
    pub fn fill(&self) -> Result<Vec<PathBuf>, Error> {
        let missing = [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::ELOOP];
        let mut skipped = Vec::new();
        for rule in &self.rules {
            match rule.add(self.fd.as_raw_fd(), &missing) {
                Ok(true) => {}
                Ok(false) => skipped.push(rule.shown()),
                Err(errno) => return Err(Error::Path(rule.shown(), errno)),
            }
        }
        Ok(skipped)
    }
}

/// All file system rights that an ABI knows.
fn handled_rights(abi: u32) -> u64 {
    let mut handled = right::ABI_1;
    for (since, bit) in [(2, right::REFER), (3, right::TRUNCATE), (5, right::IOCTL_DEV)] {
        if abi >= since {
            handled |= bit;
        }
    }
    handled
}

/// The rights of a rule on a directory. Device nodes can never be made.
fn dir_rights(access: Access) -> u64 {
    use right::*;
    let mut rights = 0;
    if access.has(Access::READ) {
        rights |= READ_FILE | READ_DIR;
    }
    if access.has(Access::WRITE) {
        rights |= WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK;
        rights |= MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE;
    }
    if access.has(Access::EXECUTE) {
        rights |= EXECUTE | READ_FILE;
    }
    if access.has(Access::DEVICE) {
        rights |= WRITE_FILE | IOCTL_DEV;
    }
    rights
}

impl Rule {
    fn new(rule: &PathRule, handled: u64) -> Result<Rule, Error> {
        let dir_rights = dir_rights(rule.access) & handled;
        Ok(Rule { path: c_path(&rule.path)?, dir_rights, optional: rule.optional })
    }

    fn shown(&self) -> PathBuf {
        OsStr::from_bytes(self.path.to_bytes()).into()
    }

    /// Adds it; false where an optional path is `missing`. Raw calls only.
    fn add(&self, ruleset: RawFd, missing: &[Errno]) -> Result<bool, Errno> {
        let fd = match raw::open_path(&self.path) {
            Ok(fd) => fd,
            Err(errno) if self.optional && missing.contains(&errno) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        // Rights on what a directory holds are refused for anything else: that tells what this is without asking.
        for rights in [self.dir_rights, self.dir_rights & right::OF_FILES] {
            // Nothing of what is granted there is handled by this ABI.
            if rights == 0 {
                break;
            }
            match raw::landlock_add(ruleset, fd.as_fd(), rights) {
                Err(libc::EINVAL) if rights & !right::OF_FILES != 0 => {}
                added => return added.map(|()| true),
            }
        }
        Ok(true)
    }
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Path(path.to_owned(), libc::EINVAL))
}

/// Adds the late rules. For the new mount namespace or the child: raw calls only.
///
/// # Errors
/// The number of the rule that failed, and the errno.
pub fn add_late(ruleset: RawFd, rules: &[Rule]) -> Result<(), (usize, Errno)> {
    for (i, rule) in rules.iter().enumerate() {
        rule.add(ruleset, &[libc::ENOENT, libc::ENOTDIR]).map_err(|errno| (i, errno))?;
    }
    Ok(())
}

/// Confines the calling thread and all it will start. Needs no-new-privileges. Raw call only.
///
/// # Errors
/// The errno of landlock_restrict_self(2).
pub fn apply(ruleset: RawFd) -> Result<(), Errno> {
    raw::landlock_restrict(ruleset)
}

#[cfg(test)]
mod tests;
