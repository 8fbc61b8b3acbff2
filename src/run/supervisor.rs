//! The front's one poll loop: the child's output, our input, the keeper's reports, signals to us, deadlines.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::keeper::REAP;
use super::message::{self, Account, Order, Received, Report};
use super::stream::{Feeder, PIECE, Stream, Took};
use super::{How, LimitKind, Outside, Stop};
use crate::policy::model::EffectiveLimits;
use crate::sandbox::Step;
use crate::sys::fd::{self, PollFd};
use crate::sys::process::{self, Usage};
use crate::sys::signal::{self, SignalSet};

/// After the main process: how long others may go on writing before they are killed.
const GRACE: Duration = Duration::from_millis(100);
/// How much later than the front the keeper acts by itself.
const BACKSTOP: Duration = Duration::from_secs(2);
/// How often the caller is asked whether the run has to stop: it dies well within a second.
const LOOK: Duration = Duration::from_millis(200);
/// At the end, in raw mode: how long a reader may take nothing before the rest is given up.
const READER: Duration = Duration::from_secs(5);

/// When things are due.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    wall: Option<Instant>,
    kill_grace: Duration,
}

impl Deadlines {
    /// For a run that begins now.
    pub fn new(began: Instant, limits: &EffectiveLimits) -> Deadlines {
        Deadlines {
            wall: limits.wall_time.get().and_then(|time| began.checked_add(time)),
            kill_grace: limits.kill_grace,
        }
    }

    /// When the keeper kills by itself.
    pub fn backstop(&self) -> Option<Instant> {
        self.wall?.checked_add(self.kill_grace)?.checked_add(BACKSTOP)
    }
}

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The main process runs.
    Running,
    /// The tree was asked to end and is killed at this time.
    Terminating(Instant),
    /// The main process has ended; what others write until this time is kept.
    Draining(Instant),
    /// The tree was killed; the keeper has to account for it until this time.
    Killing(Instant),
    /// The keeper was killed too; its end is awaited until this time.
    Abandoned(Instant),
    /// Nothing more will be reported.
    Over,
}

/// What was learned.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How the main process ended.
    pub how: Option<How>,
    /// Which limit ended the run.
    pub limit: Option<LimitKind>,
    /// What the main process used.
    pub main_usage: Option<Usage>,
    /// The keeper's account of the tree.
    pub account: Option<Account>,
    /// The tree cannot be held this way.
    pub unable: Option<(Step, i32)>,
    /// The keeper died without its account.
    pub lost: bool,
    /// Its end could not be awaited.
    pub unreaped: bool,
    /// Sentences.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Nothing ran: this step failed.
    pub fn not_started(step: Step, errno: i32) -> Verdict {
        Verdict { how: Some(How::NotStarted { step, errno }), ..Verdict::default() }
    }
}

/// The loop and what it moves.
pub struct Supervisor<'s> {
    /// What was learned so far.
    pub verdict: Verdict,
    /// The child's stdout and stderr.
    pub streams: [Stream<'s>; 2],
    /// The keeper.
    pub pidfd: Option<OwnedFd>,
    control: OwnedFd,
    feeder: Feeder,
    deadlines: Deadlines,
    phase: Phase,
    cancelled: Option<How>,
    stop: Stop<'s>,
    next_look: Instant,
    signals: u32,
    mask: SignalSet,
    buffer: Vec<u8>,
}

fn entry(fd: i32, events: i16) -> PollFd {
    PollFd { fd, events, revents: 0 }
}

impl<'s> Supervisor<'s> {
    /// A loop over these; `pidfd` names the keeper.
    pub fn new(
        control: OwnedFd,
        pidfd: Option<OwnedFd>,
        streams: [Stream<'s>; 2],
        feeder: Feeder,
        deadlines: Deadlines,
        outside: Outside<'s>,
    ) -> Supervisor<'s> {
        Supervisor {
            verdict: Verdict::default(),
            streams,
            control,
            pidfd,
            feeder,
            deadlines,
            phase: Phase::Running,
            cancelled: None,
            stop: outside.stop,
            next_look: Instant::now() + LOOK,
            signals: 0,
            mask: outside.caught.poll_mask(),
            buffer: vec![0; PIECE],
        }
    }

    /// Until the keeper has given its account, or is given up.
    pub fn drive(&mut self) {
        while self.phase != Phase::Over {
            if self.wait() {
                self.listen();
            }
            let silent = self.streams.iter().all(Stream::ended);
            if silent && matches!(self.phase, Phase::Draining(_)) {
                self.finish();
            }
            self.heed_signals();
            self.heed_caller();
            self.keep_deadlines(Instant::now());
        }
    }

    fn due(&self) -> Option<Instant> {
        let look = self.stop.filter(|_| self.can_be_stopped()).map(|_| self.next_look);
        let due = match self.phase {
            Phase::Running => self.deadlines.wall,
            Phase::Terminating(at) | Phase::Draining(at) | Phase::Killing(at) | Phase::Abandoned(at) => {
                Some(at)
            }
            Phase::Over => Some(Instant::now()),
        };
        due.into_iter().chain(look).min()
    }

    fn can_be_stopped(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Terminating(_))
    }

    /// Asks the caller now and then whether the tree has to die.
    fn heed_caller(&mut self) {
        let Some(stop) = self.stop.filter(|_| self.can_be_stopped()) else { return };
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        if stop() {
            self.cancelled = Some(How::Stopped);
            self.verdict.limit = None;
            self.tell(Order::Kill);
            self.killing();
        }
    }

    /// Waits for the next event and moves the bytes that can be moved. Whether the keeper has something to say.
    fn wait(&mut self) -> bool {
        let (input, input_events) = self.feeder.writable();
        let mut fds = [
            entry(self.control.as_raw_fd(), libc::POLLIN),
            entry(self.streams[0].readable(), libc::POLLIN),
            entry(self.streams[1].readable(), libc::POLLIN),
            entry(self.streams[0].writable(), libc::POLLOUT),
            entry(self.streams[1].writable(), libc::POLLOUT),
            entry(self.feeder.readable(), libc::POLLIN),
            entry(input, input_events),
        ];
        let timeout = self.due().map(|at| at.saturating_duration_since(Instant::now()));
        if !matches!(fd::ppoll(&mut fds, timeout, &self.mask), Ok(n) if n > 0) {
            return false;
        }
        let ready = |index: usize| fds[index].fd >= 0 && fds[index].revents != 0;
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if ready(3 + index) {
                stream.flush();
            }
            if ready(1 + index) {
                stream.take(&mut self.buffer);
            }
        }
        if ready(5) {
            self.feeder.take(&mut self.buffer);
        }
        if fds[6].revents & libc::POLLOUT != 0 {
            self.feeder.flush();
        } else if ready(6) {
            self.feeder.stop();
        }
        ready(0)
    }

    fn tell(&self, order: Order) {
        // A keeper that is gone is noticed by the end of its socket.
        let _ = message::send(self.control.as_fd(), &order);
    }

    fn listen(&mut self) {
        while self.phase != Phase::Over {
            match message::receive::<Report>(self.control.as_fd()) {
                Received::Nothing => break,
                Received::Message(report) => self.hear(report),
                Received::Gone => {
                    self.verdict.lost = true;
                    self.phase = Phase::Over;
                }
            }
        }
    }

    fn hear(&mut self, report: Report) {
        match report {
            Report::Unable(step, errno) => {
                self.verdict.unable = Some((Step::from_number(step).unwrap_or(Step::Keeper), errno));
                self.phase = Phase::Over;
            }
            Report::NotStarted(step, errno) => {
                let step = Step::from_number(step).unwrap_or(Step::Child);
                self.verdict.how = Some(How::NotStarted { step, errno });
                self.phase = Phase::Over;
            }
            Report::OldProc(errno) => {
                let why = std::io::Error::from_raw_os_error(errno);
                self.verdict.warnings.push(format!(
                    "the run has a PID namespace, but /proc still shows the host's processes: {why}"
                ));
            }
            Report::Limit(kind) => self.hear_limit(LimitKind::from_number(kind)),
            Report::MainEnded(status, usage) => self.main_ended(status, usage),
            Report::Done(account) => self.all_over(account),
            Report::Over(status, usage, account) => {
                self.main_ended(status, usage);
                self.all_over(account);
            }
        }
    }

    fn all_over(&mut self, account: Account) {
        self.verdict.account = Some(account);
        self.phase = Phase::Over;
    }

    fn hear_limit(&mut self, kind: Option<LimitKind>) {
        if self.phase != Phase::Running {
            return;
        }
        self.verdict.limit = self.verdict.limit.or(kind);
        // A file that grew too big ended its writer alone; for the others the keeper is killing the tree.
        if kind != Some(LimitKind::FileSize) {
            self.killing();
        }
    }

    fn main_ended(&mut self, status: i32, usage: Usage) {
        self.verdict.main_usage = Some(usage);
        self.verdict.how = Some(match self.cancelled {
            Some(how) => how,
            None if libc::WIFSIGNALED(status) => {
                How::Signaled(libc::WTERMSIG(status), libc::WCOREDUMP(status))
            }
            None => How::Exited(libc::WEXITSTATUS(status)),
        });
        match self.phase {
            Phase::Running | Phase::Terminating(_) => self.phase = Phase::Draining(Instant::now() + GRACE),
            Phase::Killing(_) => self.tell(Order::Finish),
            _ => {}
        }
    }

    fn killing(&mut self) {
        self.phase = Phase::Killing(Instant::now() + REAP + Duration::from_millis(500));
    }

    fn finish(&mut self) {
        self.tell(Order::Finish);
        self.killing();
    }

    fn ask_to_end(&mut self, now: Instant) {
        self.tell(Order::Signal(libc::SIGTERM));
        self.phase = Phase::Terminating(now + self.deadlines.kill_grace);
    }

    fn heed_signals(&mut self) {
        let Some((first, count)) = signal::caught().filter(|&(_, count)| count > self.signals) else {
            return;
        };
        let again = count > self.signals + 1;
        self.signals = count;
        match self.phase {
            Phase::Running => {
                self.cancelled = Some(How::Cancelled(first));
                self.ask_to_end(Instant::now());
                if again {
                    self.tell(Order::Kill);
                    self.killing();
                }
            }
            Phase::Terminating(_) => {
                self.tell(Order::Kill);
                self.killing();
            }
            // The main process has ended by itself: only the waiting is cut short, and what comes after the run hears of it.
            Phase::Draining(_) => {
                signal::hand_on();
                self.finish();
            }
            _ if self.cancelled.is_none() => signal::hand_on(),
            _ => {}
        }
    }

    fn keep_deadlines(&mut self, now: Instant) {
        match self.phase {
            Phase::Running if self.deadlines.wall.is_some_and(|at| now >= at) => {
                self.verdict.limit = Some(LimitKind::WallTime);
                self.ask_to_end(now);
            }
            Phase::Terminating(at) if now >= at => {
                self.tell(Order::Kill);
                self.killing();
            }
            Phase::Draining(at) if now >= at => self.finish(),
            Phase::Killing(at) if now >= at => {
                // Stopped, or held up: its death ends a namespace, and leaves groups to the front.
                if let Some(pidfd) = &self.pidfd {
                    let _ = process::pidfd_signal(pidfd, libc::SIGKILL);
                }
                self.phase = Phase::Abandoned(now + Duration::from_millis(500));
            }
            Phase::Abandoned(at) if now >= at => {
                self.verdict.lost = true;
                self.verdict.unreaped = true;
                self.phase = Phase::Over;
            }
            _ => {}
        }
        if self.phase == Phase::Over && self.verdict.how.is_none() {
            self.verdict.how = self.cancelled;
        }
    }

    /// When the tree is dead: takes what is left in the pipes and lets our own readers have it, giving up on one
    /// that takes nothing for five seconds.
    pub fn drain(&mut self) {
        self.feeder.stop();
        for stream in &mut self.streams {
            let mut last = Instant::now();
            loop {
                while stream.take(&mut self.buffer) == Took::Bytes {
                    last = Instant::now();
                }
                let writable = stream.writable();
                let left = (last + READER).saturating_duration_since(Instant::now());
                if writable < 0 || left.is_zero() {
                    break;
                }
                let mut fds = [entry(writable, libc::POLLOUT)];
                let _ = fd::ppoll(&mut fds, Some(left), &SignalSet::full());
                if fds[0].revents != 0 && stream.flush() {
                    last = Instant::now();
                }
            }
        }
    }
}
