//! Why the mounts of a run cannot be prepared.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{MAX_TREES, TMP_DIRS};

/// Why the mounts cannot be prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Every place for a private tmp is needed by the run itself.
    NoTmp,
    /// The mount point of a `map` entry does not exist.
    MapTarget(PathBuf),
    /// More paths than can be held at once.
    TooMany(usize),
    /// A NUL byte in a path.
    Path(PathBuf),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |path: &Path| path.display().to_string().escape_debug().to_string();
        match self {
            Error::NoTmp => write!(f, "no place for a private tmp: the policy grants all of {TMP_DIRS:?}"),
            Error::MapTarget(path) => {
                write!(
                    f,
                    "[filesystem] map: '{}' does not exist, so nothing can be shown there",
                    quoted(path)
                )
            }
            Error::TooMany(count) => write!(f, "{count} paths need a mount, and {MAX_TREES} is the most"),
            Error::Path(path) => write!(f, "'{}' cannot be mounted", quoted(path)),
        }
    }
}

impl std::error::Error for Error {}
