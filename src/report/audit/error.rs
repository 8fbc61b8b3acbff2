//! Why an audit record could not be written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::policy::trust::{Problem, TrustError};

/// Why the audit file cannot be used. Each tells what to do about it. Paths are shown quoted and escaped.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditError {
    /// A system call failed.
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `open`, `read`, ...
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Its last component is a symbolic link.
    Symlink {
        /// The file.
        path: PathBuf,
    },
    /// It is a directory, a pipe, a device.
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// It belongs to somebody who must not be able to change it.
    Owner {
        /// The file.
        path: PathBuf,
        /// The user id it belongs to.
        owner: u32,
    },
    /// Its mode lets others write it (or, for the lock, open it at all).
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What `chmod` should be told.
        remedy: &'static str,
    },
    /// Somebody else can change a directory or a link on the way to it, and so put another file in its place.
    Way {
        /// The file.
        path: PathBuf,
        /// Which, and what is wrong with it.
        trust: TrustError,
    },
    /// Another writer held the lock for 5 seconds.
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The file was replaced again and again while it was being opened.
    Moving {
        /// The file.
        path: PathBuf,
    },
    /// It holds something else than audit records.
    NotAudit {
        /// The file.
        path: PathBuf,
    },
    /// One record would be longer than [`super::MAX_LINE`].
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

impl AuditError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> AuditError {
        AuditError::Io { path: path.to_owned(), doing, source }
    }

    /// The way to `path` failed the test.
    pub(crate) fn way(path: &Path, trust: TrustError) -> AuditError {
        match trust.problem {
            Problem::Io(error) => AuditError::io(path, "open", error),
            _ => AuditError::Way { path: path.to_owned(), trust },
        }
    }

    /// What to do about it, in one sentence.
    pub fn hint(&self) -> String {
        match self {
            AuditError::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "create the directory, or name another file in [audit] file".into()
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room on that file system".into()
                }
                io::ErrorKind::FileTooLarge => {
                    "raise the file size limit (ulimit -f), or set [audit] rotate".into()
                }
                _ => "make the file and its directory writable for the user who runs guardexec".into(),
            },
            AuditError::Symlink { .. } => "name the real file in [audit] file".into(),
            AuditError::NotRegular { .. } => "name a regular file in [audit] file".into(),
            AuditError::Owner { path, .. } => {
                format!("chown {path:?} to root or to the user who runs guardexec")
            }
            AuditError::Mode { path, remedy, .. } => format!("chmod {remedy} {path:?}"),
            AuditError::Way { trust, .. } => {
                trust.remedy().unwrap_or_else(|| "name another file in [audit] file".into())
            }
            AuditError::Busy { path } => format!("find the process that holds {path:?} (lslocks)"),
            AuditError::Moving { .. } => "let guardexec rotate its file itself ([audit] rotate)".into(),
            AuditError::NotAudit { .. } => "move that file away, or name another in [audit] file".into(),
            AuditError::TooLong { .. } => "send a shorter request".into(),
        }
    }
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuditError::Io { path, doing, source } => {
                write!(f, "cannot {doing} the audit file {path:?}: {source}")
            }
            AuditError::Symlink { path } => write!(f, "the audit file {path:?} is a symbolic link"),
            AuditError::NotRegular { path } => write!(f, "the audit file {path:?} is not a regular file"),
            AuditError::Owner { path, owner } => write!(f, "the audit file {path:?} belongs to user {owner}"),
            AuditError::Mode { path, mode, .. } => {
                write!(f, "the audit file {path:?} is open to others (mode {mode:04o})")
            }
            AuditError::Way { path, trust } => {
                write!(f, "the way to the audit file {path:?} is open to others: {trust}")
            }
            AuditError::Busy { path } => {
                write!(f, "the audit lock {path:?} was held by another writer for 5s")
            }
            AuditError::Moving { path } => {
                write!(f, "the audit file {path:?} is replaced faster than it can be opened")
            }
            AuditError::NotAudit { path } => {
                write!(f, "the file {path:?} holds something else than audit records")
            }
            AuditError::TooLong { bytes } => write!(f, "an audit record of {bytes} bytes is too long"),
        }
    }
}

impl std::error::Error for AuditError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AuditError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
