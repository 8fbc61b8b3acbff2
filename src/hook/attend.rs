//! The parent's half: starts runners, takes what they say, passes signals on, and bounds all of it in time.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use super::{Heard, Job, SIDE_BY_SIDE, runner, wire};
use crate::decision::Facts;
use crate::run::{END_SIGNALS, Held, Reaper, Stop};
use crate::sys::fd::{self, PollFd};
use crate::sys::process::{self, Forked, Pid, Waited};
use crate::sys::signal::{self, Caught, SignalSet};

/// How much later than a hook's own timeout its runner must have answered: TERM, KILL, reaping and a busy machine.
const MARGIN: Duration = Duration::from_secs(8);
/// The same, once guardexec itself was asked to end.
const ENDING: Duration = Duration::from_secs(6);
/// How long a killed runner may take to be gone.
const GONE: Duration = Duration::from_secs(2);
/// Without a pidfd (before Linux 5.2): how often a runner's end is looked for.
const LOOK: Duration = Duration::from_millis(2);
const PIECE: usize = 64 << 10;

/// Runs one. See [`run_all`].
pub fn run(job: Job<'_>, facts: &Facts, stop: Stop<'_>) -> Heard {
    run_all(vec![job], facts, stop).pop().unwrap_or_else(|| Heard::Lost("it was not run".to_owned()))
}

/// Runs all of them side by side and says of each, in their order, what came of it. Nothing of them is alive afterwards.
///
/// `facts` gives the user's name and home; nothing else of the caller reaches a hook. `stop` is asked several times a
/// second whether they all have to die. A signal that asks guardexec to end asks them to end, and they are
/// [`Heard::Cancelled`]. The process must have one thread, and must not hold what a fork would harm (an open database).
pub fn run_all(jobs: Vec<Job<'_>>, facts: &Facts, stop: Stop<'_>) -> Vec<Heard> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let all = |why: String| jobs.iter().map(|_| Heard::NotStarted(why.clone())).collect();
    if let Some(n) = process::thread_count().filter(|&n| n > 1) {
        return all(format!("a hook can only be started by a process with one thread, not {n}"));
    }
    let caught = match Caught::install(&END_SIGNALS) {
        Ok(caught) => caught,
        Err(error) => return all(format!("the signals could not be caught: {error}")),
    };
    // What a killed runner leaves comes to us.
    let reaper = Reaper::new(Held::Groups);
    let mut crew = Crew::new(jobs.len(), caught.poll_mask());
    let mut waiting: VecDeque<(usize, Job<'_>)> = jobs.into_iter().enumerate().collect();
    while !(waiting.is_empty() && crew.at_work.is_empty()) {
        while crew.at_work.len() < SIDE_BY_SIDE
            && let Some((index, job)) = waiting.pop_front()
        {
            crew.start(index, job, facts, stop);
        }
        crew.wait();
        crew.heed_signals();
    }
    if crew.lost_one() {
        reaper.sweep();
    }
    crew.conclude()
}

fn lost() -> Heard {
    Heard::Lost("guardexec lost the process that ran it".to_owned())
}

/// A runner at work.
struct Runner {
    index: usize,
    pid: Pid,
    pidfd: Option<OwnedFd>,
    /// Closed at its end, or when it said too much.
    pipe: Option<OwnedFd>,
    frame: Vec<u8>,
    due: Instant,
    killed: bool,
}

impl Runner {
    fn signal(&self, signal: i32) {
        // Without a pidfd by its number: it is our child and not reaped, so the number is its own.
        let _ = match &self.pidfd {
            Some(pidfd) => process::pidfd_signal(pidfd, signal),
            None => process::kill(self.pid, signal),
        };
    }

    /// Takes what the pipe has.
    fn take(&mut self, buffer: &mut [u8]) {
        let Some(pipe) = &self.pipe else { return };
        match fd::read(pipe.as_fd(), buffer) {
            Ok(n) if n > 0 && self.frame.len() + n <= wire::LONGEST => {
                self.frame.extend_from_slice(&buffer[..n]);
            }
            Err(e)
                if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            _ => self.pipe = None,
        }
    }

    /// What it said, where it is gone; the end of its pipe alone is not the end of its run.
    fn gone(&self) -> Option<Heard> {
        if process::try_wait(self.pid) == Waited::NoneDead {
            return None;
        }
        let said = wire::decode(&self.frame);
        Some(said.filter(|_| !self.killed).unwrap_or_else(lost))
    }
}

struct Crew {
    at_work: Vec<Runner>,
    heard: Vec<Option<Heard>>,
    mask: SignalSet,
    /// The first signal to guardexec and how many were passed on.
    cancelled: Option<(i32, u32)>,
    buffer: Vec<u8>,
}

impl Crew {
    fn new(jobs: usize, mask: SignalSet) -> Crew {
        let heard = (0..jobs).map(|_| None).collect();
        let buffer = vec![0; PIECE];
        Crew { at_work: Vec::new(), heard, mask, cancelled: None, buffer }
    }

    /// Forks a runner for this job; once guardexec is to end, none is started.
    fn start(&mut self, index: usize, mut job: Job<'_>, facts: &Facts, stop: Stop<'_>) {
        if let Some((signal, _)) = self.cancelled {
            self.heard[index] = Some(Heard::Cancelled(signal));
            return;
        }
        match launch(&mut job, facts, stop) {
            Ok((pid, pidfd, pipe)) => {
                let due = Instant::now() + job.timeout.min(Duration::from_secs(1 << 32)) + MARGIN;
                let (pipe, frame) = (Some(pipe), Vec::new());
                self.at_work.push(Runner { index, pid, pidfd, pipe, frame, due, killed: false });
            }
            Err(error) => self.heard[index] = Some(Heard::NotStarted(format!("no process for it: {error}"))),
        }
    }

    /// Waits for the next event; settles who is gone and kills who is overdue.
    fn wait(&mut self) {
        let entry = |fd: i32| PollFd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds: Vec<PollFd> = Vec::with_capacity(self.at_work.len());
        let mut until: Option<Instant> = None;
        for runner in &self.at_work {
            let fd = runner.pipe.as_ref().or(runner.pidfd.as_ref()).map(|fd| fd.as_raw_fd());
            fds.push(entry(fd.unwrap_or(-1)));
            let due = if fd.is_none() { Instant::now() + LOOK } else { runner.due };
            until = Some(until.map_or(due, |until| until.min(due)));
        }
        let Some(until) = until else { return };
        let left = until.saturating_duration_since(Instant::now());
        let _ = fd::ppoll(&mut fds, Some(left), &self.mask);
        for (runner, entry) in self.at_work.iter_mut().zip(&fds) {
            if entry.revents != 0 {
                runner.take(&mut self.buffer);
            }
        }
        self.settle();
        self.keep_deadlines(Instant::now());
    }

    fn settle(&mut self) {
        let heard = &mut self.heard;
        self.at_work.retain(|runner| {
            // Reaped only when all it said was read.
            let gone = if runner.pipe.is_none() { runner.gone() } else { None };
            let over = gone.is_some();
            if over {
                heard[runner.index] = gone;
            }
            !over
        });
    }

    fn keep_deadlines(&mut self, now: Instant) {
        let overdue = |runner: &Runner| now >= runner.due;
        self.at_work.retain(|runner| !(runner.killed && overdue(runner)));
        for runner in self.at_work.iter_mut().filter(|runner| now >= runner.due) {
            runner.signal(libc::SIGKILL);
            runner.killed = true;
            runner.pipe = None;
            runner.due = now + GONE;
        }
    }

    /// Passes on that guardexec is to end: each runner ends its tree as guardexec itself would, at the second signal at once.
    fn heed_signals(&mut self) {
        let passed = self.cancelled.map_or(0, |(_, count)| count);
        let Some((first, count)) = signal::caught().filter(|&(_, count)| count > passed) else { return };
        self.cancelled = Some((first, count));
        let due = Instant::now() + ENDING;
        for runner in self.at_work.iter_mut().filter(|runner| !runner.killed) {
            runner.signal(libc::SIGTERM);
            runner.due = runner.due.min(due);
        }
    }

    /// Whether something may be left that a runner did not see to.
    fn lost_one(&self) -> bool {
        self.heard.iter().any(|heard| matches!(heard, None | Some(Heard::Lost(_))))
    }

    /// Once guardexec is to end, no answer counts any more: the signal was taken here, and nobody else will hear of it.
    fn conclude(self) -> Vec<Heard> {
        let one = |heard: Option<Heard>| match self.cancelled {
            Some((signal, _)) => Heard::Cancelled(signal),
            None => heard.unwrap_or_else(lost),
        };
        self.heard.into_iter().map(one).collect()
    }
}

/// The fork, and in the child the runner.
fn launch(
    job: &mut Job<'_>,
    facts: &Facts,
    stop: Stop<'_>,
) -> std::io::Result<(Pid, Option<OwnedFd>, OwnedFd)> {
    let (ours, theirs) = fd::pipe()?;
    let (ours, theirs) = (fd::above_stdio(ours)?, fd::above_stdio(theirs)?);
    fd::set_nonblocking(ours.as_fd(), true)?;
    let parent = process::own_pid();
    match process::fork(0)? {
        Forked::Child => runner::work(job, facts, stop, parent, theirs),
        Forked::Parent(pid, pidfd) => Ok((pid, pidfd, ours)),
    }
}
