//! The keeper: the process between the front and the run. It starts the child, reaps everything, watches the
//! limits, and kills the whole tree: when told to, when a limit is passed, when its own backstop time is over, and
//! when the front process is gone.
//!
//! In a PID namespace it is the first process, so that its own death is the end of everything in it. Without one
//! it is a subreaper in a process group of its own, and so is the front process, which sweeps when the keeper dies.
//!
//! The child may be born in a cgroup of the run's own; the keeper itself never is in it, so that killing and running
//! out of memory end the run alone.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::LimitKind;
use super::child::Plan;
use super::message::{self, Account, Order, Received, Report};
use super::spawn;
use super::tree::{self, Held};
use super::watch::{Listing, Watch};
use crate::policy::model::EffectiveLimits;
use crate::sandbox::Step;
use crate::sandbox::cgroup::Cgroup;
use crate::sandbox::layers::GroundWork;
use crate::sandbox::namespace::{Namespace, Proc};
use crate::sandbox::tmp::TmpDir;
use crate::sys::process::{self, Pid, Usage, Waited};
use crate::sys::signal::{SignalSet, Signals, keeper_signals};
use crate::sys::{errno_of, fd};

/// How long the keeper waits for a killed process to become reapable.
pub const REAP: Duration = Duration::from_secs(2);

/// What the front process hands over at the fork.
pub struct Task<'a> {
    /// The keeper's end of the socket.
    pub control: OwnedFd,
    /// The namespace it was cloned into, if any.
    pub namespace: Option<&'a Namespace>,
    /// What is to be done in the new namespaces before the child is made.
    pub ground: Option<&'a GroundWork>,
    /// What the child is to do.
    pub plan: Plan<'a>,
    /// The run's cgroup, if it has one.
    pub cgroup: Option<&'a Cgroup>,
    /// The run's private tmp, where it is a directory of the host.
    pub tmp: Option<&'a TmpDir>,
    /// The limits to watch.
    pub limits: &'a EffectiveLimits,
    /// Whether the kernel holds the run's own tasks to `pids`.
    pub pids_exact: bool,
    /// When to kill everything even if the front process says nothing.
    pub backstop: Option<Instant>,
}

/// Runs the keeper in a process that was just forked; never returns.
pub fn keep(task: Task<'_>) -> ! {
    let body = std::panic::AssertUnwindSafe(|| Keeper::start(task).work());
    // A panic must not unwind into the front process's half of the program.
    let _ = std::panic::catch_unwind(body);
    process::exit_now(0)
}

/// Becomes what holds the tree.
fn hold(task: &Task<'_>) -> Result<(Held, Listing), (Step, i32)> {
    if let Some(namespace) = task.namespace {
        let _ = process::set_parent_death_signal(libc::SIGKILL);
        return Ok(match namespace.enter(task.ground)? {
            Proc::Fresh => (Held::Namespace, Listing::WholeProc),
            Proc::Old(errno) => {
                let _ = message::send(task.control.as_fd(), &Report::OldProc(errno));
                (Held::Namespace, Listing::Descendants)
            }
        });
    }
    // Not KILL: the keeper has to sweep first, when it sees the socket's end. A stopped one wakes up.
    let _ = process::set_parent_death_signal(libc::SIGCONT);
    // Without this file (CONFIG_PROC_CHILDREN) the tree could not be walked, so nothing runs.
    std::fs::metadata("/proc/thread-self/children")
        .and_then(|_| process::set_subreaper(true))
        .map_err(|error| (Step::Keeper, errno_of(&error)))?;
    Ok((Held::Groups, Listing::Descendants))
}

/// Once the child runs. Gives all descriptors that are needed when the main process has ended; until then the output
/// pipes stay open too: else their end would wake the front before there is anything to tell it.
fn close_what_the_child_took(task: &Task<'_>) -> Vec<RawFd> {
    let mut needed = vec![task.control.as_raw_fd()];
    needed.extend(task.cgroup.map(Cgroup::descriptors).into_iter().flatten());
    let mut open: Vec<RawFd> = needed.iter().chain(&task.plan.stdio[1..]).copied().collect();
    fd::close_all_but(&mut open);
    needed
}

/// Waits for the front process's word to start the child, and gives the signals that it ignores. `None` where the word does not
/// come: the front process is gone, or met an error meanwhile.
fn told_to_start(control: BorrowedFd<'_>) -> Option<Signals> {
    loop {
        match message::receive::<Order>(control) {
            Received::Message(Order::Start(ignored)) => return Some(ignored),
            Received::Message(_) | Received::Gone => return None,
            Received::Nothing => {
                let mut fds = [fd::PollFd { fd: control.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
                let _ = fd::ppoll(&mut fds, None, &SignalSet::full());
            }
        }
    }
}

struct Keeper<'a> {
    control: OwnedFd,
    held: Held,
    cgroup: Option<&'a Cgroup>,
    tmp: Option<&'a TmpDir>,
    mask: SignalSet,
    main: Pid,
    main_ended: bool,
    /// How the main process ended and what it used, until the front is told.
    untold: Option<(i32, Usage)>,
    /// All descriptors that are needed once the main process has ended.
    needed: Vec<RawFd>,
    /// When killing began.
    killing: Option<Instant>,
    /// The front process has its account of the main process and wants the rest.
    finishing: bool,
    backstop: Option<Instant>,
    watch: Watch<'a>,
    cpu_limit: Option<Duration>,
    account: Account,
}

/// Makes the child; else what to tell the front.
fn start_child(task: &Task<'_>) -> Result<Pid, Report> {
    let started = spawn::start(&task.plan, task.cgroup.map(Cgroup::descriptor));
    let main = started.map_err(|error| match task.cgroup {
        Some(_) => Report::Unable(Step::Cgroup as i32, errno_of(&error)),
        None => Report::NotStarted(Step::Child as i32, errno_of(&error)),
    })?;
    match task.plan.failure() {
        None => Ok(main),
        Some((step, errno)) => {
            let _ = process::kill(main, libc::SIGKILL);
            Err(Report::NotStarted(step, errno))
        }
    }
}

impl<'a> Keeper<'a> {
    fn start(mut task: Task<'a>) -> Keeper<'a> {
        let mut keep: Vec<RawFd> = task.plan.descriptors();
        keep.push(task.control.as_raw_fd());
        keep.extend(task.ground.and_then(GroundWork::descriptor));
        keep.extend(task.cgroup.map(Cgroup::descriptors).into_iter().flatten());
        fd::close_all_but(&mut keep);
        let fail = |step: Step, errno: i32| -> ! {
            let _ = message::send(task.control.as_fd(), &Report::Unable(step as i32, errno));
            process::exit_now(0)
        };
        // What kills our group, or a terminal that ends, must not take both guards. A session would do no more, and costs a
        // scheduling group where the kernel makes one for each (sched(7), autogroup).
        let _ = process::new_group();
        let mask = match keeper_signals(&super::END_SIGNALS) {
            Ok(mask) => mask,
            Err(error) => fail(Step::Signals, errno_of(&error)),
        };
        let (held, listing) = hold(&task).unwrap_or_else(|(step, errno)| fail(step, errno));
        let _ = process::set_dumpable(false);
        task.plan.keeper = process::own_pid();
        let Some(ignored) = told_to_start(task.control.as_fd()) else {
            // Nothing has used it.
            task.tmp.into_iter().for_each(TmpDir::remove);
            process::exit_now(0)
        };
        task.plan.ignored = ignored.and(Signals::of(&super::END_SIGNALS));
        let main = start_child(&task).unwrap_or_else(|report| {
            let _ = message::send(task.control.as_fd(), &report);
            process::exit_now(0)
        });
        if task.cgroup.is_some() {
            // Somebody has to remove the cgroup when the front process is killed: see `alone`.
            let _ = process::set_parent_death_signal(libc::SIGCONT);
        }
        let needed = close_what_the_child_took(&task);
        Keeper {
            control: task.control,
            held,
            cgroup: task.cgroup,
            tmp: task.tmp,
            mask,
            main,
            main_ended: false,
            untold: None,
            needed,
            killing: None,
            finishing: false,
            backstop: task.backstop,
            watch: Watch::new(task.limits, listing, !task.pids_exact, task.cgroup),
            cpu_limit: task.limits.cpu_time.get(),
            account: Account::default(),
        }
    }

    /// One loop until nothing of the tree is left.
    fn work(&mut self) {
        loop {
            if self.reap() {
                return self.done();
            }
            self.wait();
            match message::receive::<Order>(self.control.as_fd()) {
                Received::Nothing => {}
                Received::Message(Order::Signal(signal)) => tree::ask_to_end(self.held, signal),
                // Said once, and heard before this loop.
                Received::Message(Order::Start(_)) => {}
                Received::Message(Order::Kill) => self.kill(),
                Received::Message(Order::Finish) => {
                    self.finishing = self.killing.is_none();
                    self.kill();
                }
                Received::Gone => return self.alone(),
            }
            let now = Instant::now();
            if self.killing.is_some_and(|began| now >= began + REAP) {
                // The front answers now. Whatever is left is hunted on, however long it takes.
                self.account.unreaped = true;
                self.done();
                return self.alone();
            }
            if self.backstop.is_some_and(|end| now >= end) {
                self.kill();
            }
            self.look(now);
        }
    }

    fn kill(&mut self) {
        self.killing.get_or_insert_with(Instant::now);
        self.kill_all();
    }

    fn kill_all(&self) {
        if let Some(cgroup) = self.cgroup {
            cgroup.kill();
        }
        tree::kill_all(self.held);
    }

    fn look(&mut self, now: Instant) {
        if self.killing.is_some() {
            self.kill_all();
        } else if self.watch.due().is_some_and(|due| now >= due)
            && let Some(limit) = self.watch.sample()
        {
            self.report(&Report::Limit(limit as i32));
            self.kill();
        }
    }

    fn wait(&mut self) {
        let now = Instant::now();
        let until = match self.killing {
            Some(_) => Some(now + Duration::from_millis(10)),
            None => [self.backstop, self.watch.due()].into_iter().flatten().min(),
        };
        let mut fds = [fd::PollFd { fd: self.control.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        let _ = fd::ppoll(&mut fds, until.map(|at| at.saturating_duration_since(now)), &self.mask);
    }

    /// Reaps all that is dead. Whether no child is left; then nothing of the tree is, since orphans come here.
    fn reap(&mut self) -> bool {
        let none_left = self.reap_dead();
        if !none_left && let Some((status, usage)) = self.untold.take() {
            // What is left may hold the pipes; when it lets go the front has to see their end.
            fd::close_all_but(&mut self.needed);
            self.report(&Report::MainEnded(status, usage));
        }
        none_left
    }

    fn reap_dead(&mut self) -> bool {
        loop {
            match process::try_wait(-1) {
                Waited::NoneDead => return false,
                Waited::NoChildren => return true,
                Waited::Reaped(pid, status, usage) => {
                    self.account.processes += 1;
                    if self.finishing && libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL
                    {
                        self.account.survivors += 1;
                    }
                    if pid == self.main && !self.main_ended {
                        self.main_ended = true;
                        self.main_over(status, usage);
                    }
                }
            }
        }
    }

    fn main_over(&mut self, status: i32, usage: Usage) {
        if self.killing.is_none() && libc::WIFSIGNALED(status) {
            let over = self.cpu_limit.is_some_and(|limit| usage.cpu() >= limit);
            let limit = match libc::WTERMSIG(status) {
                libc::SIGKILL if self.cgroup.is_some_and(Cgroup::out_of_memory) => Some(LimitKind::Memory),
                libc::SIGXCPU if over => Some(LimitKind::CpuTime),
                libc::SIGKILL if over => Some(LimitKind::CpuTime),
                libc::SIGXFSZ => Some(LimitKind::FileSize),
                _ => None,
            };
            if let Some(limit) = limit {
                self.report(&Report::Limit(limit as i32));
            }
        }
        self.untold = Some((status, usage));
    }

    fn report(&self, report: &Report) {
        let _ = message::send(self.control.as_fd(), report);
    }

    fn done(&mut self) {
        let usage = &mut self.account.usage;
        *usage = process::usage_of_children();
        match self.cgroup.and_then(Cgroup::cpu) {
            Some((user, system)) => (usage.user, usage.system) = (user, system),
            None => usage.user += self.watch.lost(),
        }
        self.account.refused = self.cgroup.map_or(0, Cgroup::refused_tasks);
        let peak = self.cgroup.and_then(Cgroup::peak).unwrap_or(0);
        usage.max_rss = usage.max_rss.max(peak);
        let account = self.account;
        let report = match self.untold.take() {
            Some((status, usage)) => Report::Over(status, usage, account),
            None => Report::Done(account),
        };
        self.report(&report);
    }

    /// The front process is gone or has its answer: nobody will ask, so nothing may be left.
    fn alone(&mut self) {
        let mut pause = Duration::from_millis(5);
        while !self.reap() {
            self.kill_all();
            let mut none: [fd::PollFd; 0] = [];
            let _ = fd::ppoll(&mut none, Some(pause), &self.mask);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        if let Some(cgroup) = self.cgroup {
            cgroup.remove();
        }
        self.tmp.into_iter().for_each(TmpDir::remove);
    }
}
