//! Locks between processes, on a file of their own: asked for again and again, and never waited for without end.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

/// Against whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// Everybody else.
    Everybody,
    /// Those who lock against everybody.
    Writers,
}

/// How long to try.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// In all.
    pub most: Duration,
    /// The first and the longest pause between two tries.
    pub pauses: (Duration, Duration),
}

/// A lock that is held until this is dropped. The kernel drops it when its holder dies, however it dies.
#[derive(Debug)]
#[must_use]
pub struct Held<'a>(&'a File);

/// Takes the lock on the whole file; `None` where its time is over. A lock against everybody needs a file that is open for
/// writing, one against writers a file that is open for reading.
///
/// # Errors
/// What fcntl(2) gives for `F_OFD_SETLK`, but that another holds it.
pub fn take(file: &File, against: Against, patience: Patience) -> io::Result<Option<Held<'_>>> {
    let kind = match against {
        Against::Everybody => libc::F_WRLCK,
        Against::Writers => libc::F_RDLCK,
    };
    let deadline = Instant::now() + patience.most;
    let (mut pause, longest) = patience.pauses;
    loop {
        match set(file, kind) {
            Ok(()) => return Ok(Some(Held(file))),
            Err(Errno::EAGAIN | Errno::EACCES | Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

/// Open file description locks (fcntl(2), Linux 3.15) belong to this open file alone: two of one process exclude each other,
/// and closing another descriptor of the file does not drop them.
fn set(file: &File, kind: libc::c_int) -> Result<(), Errno> {
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&range)).map(drop)
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Said out loud, not left to close: a child forked meanwhile by the embedding program shares the description and
        // would keep the lock until it execs.
        let _ = set(self.0, libc::F_UNLCK);
    }
}
