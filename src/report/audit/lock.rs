//! The lock between writers. Why it is a file of its own: see the parent module.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::AuditError;
use super::file::{open_trusted, with_suffix};

/// The longest wait for the lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first and the longest pause between two tries; a holder keeps the lock for some ten microseconds.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// The open lock file.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

/// The lock, held until this is dropped.
#[must_use]
pub(super) struct Held<'a>(&'a Lock);

impl Lock {
    /// Opens or creates `FILE.lock`.
    pub(super) fn open(log: &Path) -> Result<Lock, AuditError> {
        let path = with_suffix(log, ".lock");
        let file = open_trusted(&path, false, 0o200, (0o077, "u=w,go="))?;
        Ok(Lock { file, path })
    }

    /// Takes the lock, waiting for other writers no longer than [`PATIENCE`].
    pub(super) fn take(&self) -> Result<Held<'_>, AuditError> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = PAUSES.0;
        loop {
            match self.set(libc::F_WRLCK) {
                Ok(()) => return Ok(Held(self)),
                Err(Errno::EAGAIN | Errno::EACCES | Errno::EINTR) => {}
                Err(e) => return Err(AuditError::io(&self.path, "lock", e.into())),
            }
            if Instant::now() >= deadline {
                return Err(AuditError::Busy { path: self.path.clone() });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Open file description locks (fcntl(2), Linux 3.15) belong to this open file alone: two of one process
    /// exclude each other, and closing another descriptor of the file does not drop them.
    fn set(&self, kind: libc::c_int) -> Result<(), Errno> {
        let range = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&range)).map(drop)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Said out loud, not left to close: a child forked meanwhile by the embedding program shares the
        // description and would keep the lock until it execs.
        let _ = self.0.set(libc::F_UNLCK);
    }
}
