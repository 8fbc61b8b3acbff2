//! Waiting for a person: bounded in time, and ended by the signals that end a run.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use crate::run::{END_SIGNALS, Stop};
use crate::sys::fd::{PollFd, ppoll};
use crate::sys::signal::{self, Caught};

/// A wait that began. Until it is dropped every signal is blocked, and those that end guardexec are counted.
pub struct Vigil<'a> {
    caught: Caught,
    deadline: Instant,
    stop: Stop<'a>,
}

/// How often it is asked whether everything has to stop.
const LOOK: Duration = Duration::from_millis(250);

/// What ended one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woke {
    /// The descriptor is ready.
    Ready,
    /// The time of this one wait is over.
    Tick,
    /// The time of all is over.
    Late,
    /// guardexec was told to end, by this signal.
    Cancelled(i32),
    /// Everything has to stop.
    Stopped,
}

impl<'a> Vigil<'a> {
    /// Begins to wait, for `most` in all. `stop` is asked several times a second.
    ///
    /// # Errors
    /// The signal handlers cannot be set.
    pub fn begin(most: Duration, stop: Stop<'a>) -> io::Result<Vigil<'a>> {
        let now = Instant::now();
        // A time beyond what the clock can say is as good as a century.
        let deadline = now.checked_add(most).unwrap_or(now + Duration::from_secs(100 * 365 * 86_400));
        Ok(Vigil { caught: Caught::install(&END_SIGNALS)?, deadline, stop })
    }

    /// Waits until the descriptor is ready for `events` (poll(2)), `tick` passes, or all is over.
    ///
    /// # Errors
    /// What ppoll(2) gives.
    pub fn wait(&self, on: Option<(BorrowedFd<'_>, i16)>, tick: Option<Duration>) -> io::Result<Woke> {
        let began = Instant::now();
        loop {
            if let Some((number, _)) = signal::caught() {
                return Ok(Woke::Cancelled(number));
            }
            if self.stop.is_some_and(|stop| stop()) {
                return Ok(Woke::Stopped);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Woke::Late);
            }
            let ticking = tick.map(|tick| tick.saturating_sub(began.elapsed()));
            if ticking.is_some_and(|left| left.is_zero()) {
                return Ok(Woke::Tick);
            }
            let (fd, events) = on.map_or((-1, 0), |(fd, events)| (fd.as_raw_fd(), events));
            let mut fds = [PollFd { fd, events, revents: 0 }];
            let pause = ticking.map_or(left, |tick| tick.min(left));
            let pause = if self.stop.is_some() { pause.min(LOOK) } else { pause };
            match ppoll(&mut fds, Some(pause), &self.caught.poll_mask()) {
                Ok(0) => {}
                Ok(_) => return Ok(Woke::Ready),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
