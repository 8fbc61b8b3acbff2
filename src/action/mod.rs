//! The built-in actions: what guardexec does itself for a tool without a command. Reads, writes, lists or deletes beneath one
//! root, by descriptor from the root down, and follows no link anywhere.
//!
//! A forked child does it, so that the deadline holds whatever a file system makes it wait for, and so that root can give up
//! being root for it: beneath a root that belongs to an ordinary user the child is that user, for good. The child says in
//! one message how it went.

mod beneath;
mod child;
mod delete;
mod identity;
mod list;
mod protected;
mod read;
mod said;
mod shield;
#[cfg(test)]
mod tests;
mod write;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::decision::Grant;
use crate::run::Stop;
use crate::sys::fd::{self, PollFd};
use crate::sys::process::{self, Forked, Pid, Waited};
use crate::sys::signal::{Caught, caught};

pub use said::{Refusal, Said};
use shield::Shield;

/// How often the caller's word to stop is asked for.
const STOP_EVERY: Duration = Duration::from_millis(100);
/// How long a killed child may take to be gone.
const REAP: Duration = Duration::from_secs(2);

/// How an action ended.
#[derive(Debug)]
pub enum How {
    /// The child said so.
    Said(Said),
    /// `wall_time` passed; what was begun is not there.
    TimedOut,
    /// guardexec got this signal.
    Cancelled(i32),
    /// Whoever started the action wanted it stopped.
    Stopped,
}

/// An action that was begun, and its end.
#[derive(Debug)]
pub struct Done {
    /// How it ended.
    pub how: How,
    /// How long it took.
    pub duration: Duration,
    /// The child was killed and could not be reaped yet.
    pub unreaped: bool,
}

/// Does what was granted. `guarded` are the files that policies lead to, which no action touches.
///
/// # Errors
/// The grant is no action, this process has other threads, or it cannot fork: nothing was done.
pub fn perform(grant: Grant, guarded: &[PathBuf], stop: Stop<'_>) -> io::Result<Done> {
    begin(grant, guarded, stop, false)
}

/// What doing it would meet, as far as a look tells, and in place of its output one sentence about that. Changes nothing.
///
/// # Errors
/// As [`perform`].
pub fn foresee(grant: Grant, guarded: &[PathBuf]) -> io::Result<Done> {
    begin(grant, guarded, None, true)
}

fn begin(grant: Grant, guarded: &[PathBuf], stop: Stop<'_>, look: bool) -> io::Result<Done> {
    let call = grant.tool.and_then(|tool| tool.action);
    let Some(call) = call else { return Err(io::Error::other("the grant is no action")) };
    if let Some(n) = process::thread_count().filter(|&n| n > 1) {
        return Err(io::Error::other(format!("an action is done by a process with one thread, not {n}")));
    }
    let denied = grant.wanted.filesystem.deny.unwrap_or_default();
    let shield = Shield::raise(&grant.cwd, &denied, guarded);
    let begun = Instant::now();
    let deadline = grant.limits.wall_time.get().and_then(|time| begun.checked_add(time));
    let caught = Caught::install(&crate::run::END_SIGNALS)?;
    let (answer, theirs) = fd::pipe()?;
    let work = child::Work { call, root: grant.cwd_fd, root_path: grant.cwd, shield, look };
    let own = process::own_pid();
    let pid = match process::fork(0)? {
        Forked::Parent(pid, _) => pid,
        Forked::Child => {
            drop(answer);
            child::main(work, theirs, own)
        }
    };
    drop(theirs);
    let how = Waiting { answer, deadline, stop, caught: &caught }.wait();
    if !matches!(how, Ok(How::Said(_))) {
        let _ = process::kill(pid, libc::SIGKILL);
    }
    let unreaped = !reaped(pid);
    Ok(Done { how: how?, duration: begun.elapsed(), unreaped })
}

struct Waiting<'a> {
    answer: OwnedFd,
    deadline: Option<Instant>,
    stop: Stop<'a>,
    caught: &'a Caught,
}

impl Waiting<'_> {
    /// Until the child has said all and closed its end, or something else ends it.
    fn wait(&self) -> io::Result<How> {
        let mut heard = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            if let Some((signal, _)) = caught() {
                return Ok(How::Cancelled(signal));
            }
            if self.stop.is_some_and(|stop| stop()) {
                return Ok(How::Stopped);
            }
            let left = self.deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(How::TimedOut);
            }
            let pause = if self.stop.is_some() { Some(STOP_EVERY) } else { None };
            let pause = [left, pause].into_iter().flatten().min();
            let mut fds = [poll_for_reading(&self.answer)];
            match fd::ppoll(&mut fds, pause, &self.caught.poll_mask()) {
                Ok(0) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            match fd::read(self.answer.as_fd(), &mut buffer)? {
                0 => return Ok(How::Said(Said::parse(heard))),
                n => heard.extend_from_slice(&buffer[..n]),
            }
        }
    }
}

fn poll_for_reading(from: &OwnedFd) -> PollFd {
    use std::os::fd::AsRawFd as _;
    PollFd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits for the child, which has nothing more to do or was killed.
fn reaped(pid: Pid) -> bool {
    let end = Instant::now() + REAP;
    loop {
        match process::try_wait(pid) {
            Waited::Reaped(..) | Waited::NoChildren => return true,
            Waited::NoneDead if Instant::now() >= end => return false,
            Waited::NoneDead => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}
