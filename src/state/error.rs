//! Why the store cannot be used, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ffi::ErrorCode;

use crate::policy::trust::TrustError;

/// The store cannot be used. Whoever needed it denies.
#[derive(Debug)]
pub enum StateError {
    /// The operating system refused.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// A verb: what was tried.
        doing: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// A link where the thing itself has to be.
    Symlink(PathBuf),
    /// The directory's name belongs to something else.
    NotDirectory(PathBuf),
    /// A file's name belongs to something else.
    NotRegular(PathBuf),
    /// It belongs to this user, who is neither root nor the user who runs guardexec.
    Owner(PathBuf, u32),
    /// Its permission bits, and what `chmod` takes to mend them.
    Mode(PathBuf, u32, &'static str),
    /// The file has more than one name.
    Links(PathBuf),
    /// Somebody else can change a directory on the way.
    Way(PathBuf, TrustError),
    /// Another process held the lock or the database too long.
    Busy(PathBuf),
    /// The directory was used before and its database is gone or empty.
    Lost(PathBuf),
    /// The file is not, or no longer, this directory's database: why.
    Foreign(PathBuf, String),
    /// It was written by a later version of guardexec.
    Newer(PathBuf, i64),
    /// Its content does not hold together: what was found.
    Corrupt(PathBuf, String),
    /// Any other error of the database.
    Database(PathBuf, rusqlite::Error),
    /// The machine's clock cannot be told: why.
    Clock(String),
    /// The store was opened by another process than the one that uses it now.
    Forked,
}

impl StateError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> StateError {
        StateError::Io { path: path.to_owned(), doing, source }
    }

    /// Stable and machine-readable: the code of the refusal that comes of it.
    pub fn code(&self) -> &'static str {
        "state_unavailable"
    }

    /// The same error, of a store in this directory: within a transaction a file is known by its name alone.
    pub(super) fn within(mut self, dir: &Path) -> StateError {
        match &mut self {
            StateError::Io { path, .. }
            | StateError::Busy(path)
            | StateError::Lost(path)
            | StateError::Foreign(path, _)
            | StateError::Newer(path, _)
            | StateError::Corrupt(path, _)
            // Joining leaves a path alone that is absolute already.
            | StateError::Database(path, _) => *path = dir.join(&*path),
            _ => {}
        }
        self
    }

    /// What to do about it, in one sentence.
    pub fn hint(&self) -> String {
        match self {
            StateError::Io { path, source, .. } => io_hint(path, source.kind()),
            StateError::Symlink(_) => "name the real directory in [state] dir or --state".into(),
            StateError::NotDirectory(path) | StateError::NotRegular(path) => {
                format!("move {path:?} away, or name another directory in [state] dir or --state")
            }
            StateError::Owner(path, _) => format!("chown {path:?} to the user who runs guardexec"),
            StateError::Mode(path, _, remedy) => format!("chmod {remedy} {path:?}"),
            StateError::Links(path) => format!("remove the other names of {path:?}"),
            StateError::Way(_, trust) => {
                trust.remedy().unwrap_or_else(|| "name another directory in [state] dir or --state".into())
            }
            StateError::Busy(path) => {
                format!("find the process that holds {path:?} (lslocks), and try again")
            }
            StateError::Lost(path) => format!(
                "put {path:?} back; or, to begin with empty counters, sessions and approvals, remove the whole directory"
            ),
            StateError::Foreign(path, _) | StateError::Corrupt(path, _) => format!(
                "put a good copy of {path:?} back; or, to begin with empty counters, sessions and approvals, move the whole \
                 directory away"
            ),
            StateError::Newer(..) => "use the guardexec that wrote it, or a later one".into(),
            StateError::Database(path, source) => database_hint(path, source),
            StateError::Clock(_) => {
                "start guardexec where /proc is mounted, in a time namespace of its own or none".into()
            }
            StateError::Forked => "open the store again in the new process".into(),
        }
    }
}

fn io_hint(path: &Path, kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("make room on the file system of {path:?}")
        }
        io::ErrorKind::FileTooLarge => "raise the file size limit (ulimit -f)".into(),
        io::ErrorKind::ReadOnlyFilesystem => {
            "name a directory on a writable file system in [state] dir or --state".into()
        }
        _ => format!("make {path:?} accessible to the user who runs guardexec, or name another directory"),
    }
}

fn database_hint(path: &Path, source: &rusqlite::Error) -> String {
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => format!("make room on the file system of {path:?}"),
        Some(ErrorCode::SystemIoFailure) => {
            "make room on its file system, raise the file size limit (ulimit -f), or look at the disk".into()
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            format!("make {path:?} and its directory writable for the user who runs guardexec")
        }
        _ => format!("look at {path:?} with sqlite3(1), or name another directory in [state] dir or --state"),
    }
}

/// Within a transaction the file is known; [`super::Store::transaction`] adds where it is.
impl From<rusqlite::Error> for StateError {
    fn from(source: rusqlite::Error) -> StateError {
        let path = PathBuf::from(super::files::DATABASE);
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StateError::Busy(path),
            Some(ErrorCode::DatabaseCorrupt) => StateError::Corrupt(path, source.to_string()),
            Some(ErrorCode::NotADatabase) => StateError::Corrupt(path, "it is not a database".into()),
            _ => match source {
                // A column that does not hold what this program puts there.
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..) => StateError::Corrupt(path, source.to_string()),
                source => StateError::Database(path, source),
            },
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Io { path, doing, source } => {
                write!(f, "cannot {doing} {path:?} for the state: {source}")
            }
            StateError::Symlink(path) => write!(f, "{path:?}, where the state is kept, is a symbolic link"),
            StateError::NotDirectory(path) => write!(f, "the state directory {path:?} is not a directory"),
            StateError::NotRegular(path) => write!(f, "the file {path:?} of the state is not a regular file"),
            StateError::Owner(path, owner) => write!(
                f,
                "{path:?}, where the state is kept, belongs to user {owner}, who is neither root nor the one who runs guardexec"
            ),
            StateError::Mode(path, mode, _) => {
                write!(f, "{path:?}, where the state is kept, is open to others (mode {mode:04o})")
            }
            StateError::Links(path) => write!(f, "the file {path:?} of the state has more than one name"),
            StateError::Way(path, trust) => {
                write!(f, "the way to the state directory {path:?} cannot be trusted: {trust}")
            }
            StateError::Busy(path) => {
                write!(f, "the lock of the state, {path:?}, was held by another process for too long")
            }
            StateError::Lost(path) => {
                write!(
                    f,
                    "the state database {path:?} is gone or empty, and counters do not begin again by that"
                )
            }
            StateError::Foreign(path, why) => {
                write!(f, "the state database {path:?} is not this directory's: {why}")
            }
            StateError::Newer(path, version) => {
                write!(
                    f,
                    "the state database {path:?} has version {version}, which this guardexec does not know"
                )
            }
            StateError::Corrupt(path, what) => write!(f, "the state database {path:?} is damaged: {what}"),
            StateError::Database(path, source) => {
                write!(f, "the state database {path:?} cannot be used: {source}")
            }
            StateError::Clock(why) => write!(f, "the time for the state cannot be told: {why}"),
            StateError::Forked => write!(f, "the state was opened by another process"),
        }
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StateError::Io { source, .. } => Some(source),
            StateError::Database(_, source) => Some(source),
            StateError::Way(_, trust) => Some(trust),
            _ => None,
        }
    }
}
