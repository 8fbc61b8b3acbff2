//! The keeper's end. The kernel needs longer for it than for the run's own: a whole address space, a PID and a mount
//! namespace are taken down, and an RCU grace period is waited for. Meanwhile the front process can tell the result.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::sys::fd;
use crate::sys::process::{self, Pid};
use crate::sys::signal::SignalSet;

/// As long as the kernel may need to end a namespace.
const END: Duration = Duration::from_millis(500);

/// A keeper that has said its last word: nothing of the run is left but itself, and it is leaving. Dropping this waits
/// for its end, so that it never becomes anybody else's child.
#[derive(Debug)]
pub struct Leaving {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Leaving {
    pub(super) fn new(pid: Pid, pidfd: Option<OwnedFd>) -> Leaving {
        Leaving { pid, pidfd }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        reap(self.pid, self.pidfd.as_ref());
    }
}

/// Waits for a keeper that has said its last word or was killed. Whether it is gone.
pub(super) fn reap(pid: Pid, pidfd: Option<&OwnedFd>) -> bool {
    let end = Instant::now() + END;
    loop {
        if !matches!(process::try_wait(pid), process::Waited::NoneDead) {
            return true;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let fd = pidfd.map_or(-1, AsRawFd::as_raw_fd);
        // Without a pidfd (before Linux 5.2) looking now and then has to do.
        let wait = if fd < 0 { left.min(Duration::from_millis(1)) } else { left };
        let mut fds = [fd::PollFd { fd, events: libc::POLLIN, revents: 0 }];
        let _ = fd::ppoll(&mut fds, Some(wait), &SignalSet::full());
    }
}
