//! The lock around every transaction.
//!
//! SQLite has locks of its own, and they stay in force; but whoever waits for one sleeps longer and longer, and out of
//! fifty processes some would wait without end. This one is asked for often and held briefly. The kernel drops it when its
//! holder dies, however it dies.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

use super::{StateError, files};
use crate::sys::lock::{self, Against, Held, Patience};

/// A holder keeps the lock for some milliseconds, which a disk needs to keep what it was told.
const PATIENCE: Patience = Patience {
    most: Duration::from_secs(10),
    pauses: (Duration::from_micros(100), Duration::from_millis(4)),
};

/// The open lock file.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    patience: Patience,
}

impl Lock {
    /// Opens the lock file, or makes it.
    pub(super) fn make(path: &Path) -> Result<Lock, StateError> {
        let file = files::with_an_owners_umask(|| files::open(path, true))?;
        // `create` never finds nothing.
        let file = file.ok_or_else(|| StateError::io(path, "open", Errno::ENOENT.into()))?;
        Ok(Lock { file, path: path.to_owned(), patience: PATIENCE })
    }

    /// Opens the lock file for looking only, where it is there.
    pub(super) fn find(path: &Path) -> Result<Option<Lock>, StateError> {
        let file = files::open(path, false)?;
        Ok(file.map(|file| Lock { file, path: path.to_owned(), patience: PATIENCE }))
    }

    /// Takes the lock against everybody.
    ///
    /// # Errors
    /// [`StateError::Busy`] after [`PATIENCE`].
    pub(super) fn take(&self) -> Result<Held<'_>, StateError> {
        self.wait_for(Against::Everybody)
    }

    /// Takes the lock against writers only.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub(super) fn share(&self) -> Result<Held<'_>, StateError> {
        self.wait_for(Against::Writers)
    }

    fn wait_for(&self, against: Against) -> Result<Held<'_>, StateError> {
        match lock::take(&self.file, against, self.patience) {
            Ok(Some(held)) => Ok(held),
            Ok(None) => Err(StateError::Busy(self.path.clone())),
            Err(error) => Err(StateError::io(&self.path, "lock", error)),
        }
    }

    /// For tests: a shorter patience.
    #[cfg(test)]
    pub(super) fn impatient(mut self, patience: Duration) -> Lock {
        self.patience.most = patience;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::Dir;

    #[test]
    fn it_is_waited_for_and_not_without_end() {
        let dir = Dir::new();
        let path = dir.0.with_file_name("lock");
        let patient = Lock::make(&path).unwrap();
        let other = Lock::make(&path).unwrap().impatient(Duration::from_millis(30));
        let reader = Lock::find(&path).unwrap().expect("it is there").impatient(Duration::from_millis(30));
        let held = patient.take().unwrap();
        assert!(matches!(other.take(), Err(StateError::Busy(p)) if p == path));
        assert!(matches!(reader.share(), Err(StateError::Busy(_))));
        drop(held);
        let shared = (reader.share().unwrap(), other.share().unwrap());
        assert!(
            matches!(Lock::make(&path).unwrap().impatient(Duration::ZERO).take(), Err(StateError::Busy(_))),
            "against writers"
        );
        drop(shared);
        let held = other.take().unwrap();
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| patient.take().map(drop));
            drop(held);
            waiting.join().unwrap()
        });
        assert!(waiting.is_ok());
        assert!(Lock::find(&dir.0.with_file_name("none")).unwrap().is_none());
    }
}
