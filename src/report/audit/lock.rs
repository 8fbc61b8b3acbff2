//! The lock between writers. Why it is a file of its own: see the parent module.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::AuditError;
use super::file::{open_trusted, with_suffix};
use crate::sys::lock::{self, Against, Held, Patience};

/// A holder keeps the lock for some ten microseconds.
const PATIENCE: Patience =
    Patience { most: Duration::from_secs(5), pauses: (Duration::from_micros(50), Duration::from_millis(5)) };

/// The open lock file.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Opens or creates `FILE.lock`.
    pub(super) fn open(log: &Path) -> Result<Lock, AuditError> {
        let path = with_suffix(log, ".lock");
        let file = open_trusted(&path, false, 0o200, (0o077, "u=w,go="))?;
        Ok(Lock { file, path })
    }

    /// Takes the lock, waiting for other writers no longer than [`PATIENCE`].
    pub(super) fn take(&self) -> Result<Held<'_>, AuditError> {
        match lock::take(&self.file, Against::Everybody, PATIENCE) {
            Ok(Some(held)) => Ok(held),
            Ok(None) => Err(AuditError::Busy { path: self.path.clone() }),
            Err(error) => Err(AuditError::io(&self.path, "lock", error)),
        }
    }
}
