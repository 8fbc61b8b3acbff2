//! The run: a settled job is started, bounded, watched, ended, and accounted for.
//!
//! Three processes take part. The **front** (this one) moves bytes and keeps the deadlines in one poll loop. The
//! **keeper** is its child: it starts the **child**, reaps everything, watches limits, kills the whole tree. Each of
//! the two guards ends the tree when the other one dies. Nothing here knows of policies or JSON.

mod cgroups;
mod child;
mod front;
mod keeper;
mod leaving;
mod message;
mod output;
mod sockets;
mod spawn;
mod stream;
mod supervisor;
mod tree;
mod watch;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::time::Duration;

use cgroups::Cgroups;
use front::Attempt;
pub(crate) use front::Reaper;
pub use leaving::Leaving;
pub use output::{Captured, LIFTED_CAP};
pub use stream::{PassThrough, Sinks};
pub use tree::Held;

use crate::policy::model::TreeKind;
use crate::sandbox::namespace::Namespace;
use crate::sandbox::rlimit::LimitsHow;
use crate::sandbox::{Confinement, Enforced, PrepareError, Step};
use crate::sys::process;
use crate::sys::signal::Caught;

/// The signals by which somebody asks guardexec to end.
pub(crate) const END_SIGNALS: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Which limit ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum LimitKind {
    /// `wall_time`.
    WallTime = 1,
    /// `cpu_time`.
    CpuTime,
    /// `memory`.
    Memory,
    /// `pids`.
    Pids,
    /// `file_size`.
    FileSize,
}

impl LimitKind {
    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            LimitKind::WallTime => "wall_time",
            LimitKind::CpuTime => "cpu_time",
            LimitKind::Memory => "memory",
            LimitKind::Pids => "pids",
            LimitKind::FileSize => "file_size",
        }
    }

    /// The kind with this number, as it travels between processes.
    pub(crate) fn from_number(number: i32) -> Option<LimitKind> {
        use LimitKind::{CpuTime, FileSize, Memory, Pids, WallTime};
        [WallTime, CpuTime, Memory, Pids, FileSize].into_iter().find(|kind| *kind as i32 == number)
    }
}

/// How the main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal; whether it left a core.
    Signaled(i32, bool),
    /// The program never ran: this step failed with this errno.
    NotStarted {
        /// What was being done.
        step: Step,
        /// Why it failed.
        errno: i32,
    },
    /// guardexec got this signal and ended the tree.
    Cancelled(i32),
    /// Whoever started the run wanted it stopped ([`Stop`]); the tree was killed.
    Stopped,
    /// The keeper was killed or could not say how the main process ended; the tree was killed.
    Unknown,
}

/// How a run ended: what was really so, never what was asked for.
#[derive(Debug)]
pub struct Ended {
    /// How the main process ended. Where `limit` is set, guardexec (or the kernel for it) ended the run and this
    /// is only how the main process took it.
    pub how: How,
    /// The limit that ended the run.
    pub limit: Option<LimitKind>,
    /// From the start to the end of the whole tree.
    pub duration: Duration,
    /// User time of the tree, as far as it was reaped or seen.
    pub cpu_user: Duration,
    /// System time of the tree.
    pub cpu_system: Duration,
    /// Greatest resident set of any one process, in bytes; `None` when unknown.
    pub max_rss: Option<u64>,
    /// Processes that were reaped; `None` when unknown.
    pub processes: Option<u32>,
    /// What the child wrote to its standard output.
    pub stdout: Captured,
    /// What the child wrote to its standard error.
    pub stderr: Captured,
    /// Processes that were alive after the main one had ended by itself, and were killed.
    pub survivors: u32,
    /// Which layers were really on.
    pub enforced: Enforced,
    /// How well each limit was held.
    pub limits_how: LimitsHow,
    /// Something could not be reaped within seconds (uninterruptible); it is killed and will go.
    pub unreaped: bool,
    /// The run changed what the workspace protects; what it planted was set aside, or is spoken of in `warnings`.
    pub planted: bool,
    /// What of the output could not be passed on, and why; `None` also where its reader went away.
    pub unpassed: Option<String>,
    /// Unix sockets that the run wanted to connect to and that the policy does not list, the first few.
    pub sockets_refused: Vec<Vec<u8>>,
    /// Sentences for the result's `warnings`.
    pub warnings: Vec<String>,
    /// The keeper, where the tree is dead and it has yet to end itself. To be dropped when the result is told.
    pub leaving: Option<Leaving>,
}

impl Held {
    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Held::Namespace => "pid_namespace",
            Held::Groups => "process_groups",
        }
    }
}

/// Why nothing was run.
#[derive(Debug)]
pub enum RunError {
    /// guardexec has other threads, whose locks a fork would copy.
    Threads(u64),
    /// The tree cannot be held as the policy demands.
    NoTree {
        /// What was being done.
        step: Step,
        /// Why it failed.
        errno: i32,
    },
    /// The policy demands a cgroup, and there can be none.
    NoCgroup(String),
    /// A layer cannot be prepared.
    Prepare(PrepareError),
    /// A pipe, socket or signal handler could not be had.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Threads(n) => {
                write!(f, "a run can only be started by a process with one thread, not {n}")
            }
            RunError::NoTree { step, errno } => {
                write!(f, "could not {step}: {}", io::Error::from_raw_os_error(*errno))
            }
            RunError::NoCgroup(why) => write!(f, "the policy demands a cgroup: {why}"),
            RunError::Prepare(error) => error.fmt(f),
            RunError::System(error) => write!(f, "could not prepare the run: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<PrepareError> for RunError {
    fn from(error: PrepareError) -> RunError {
        RunError::Prepare(error)
    }
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> RunError {
        RunError::System(error)
    }
}

/// Asked several times a second while the main process runs: whether the tree has to die now.
pub type Stop<'a> = Option<&'a dyn Fn() -> bool>;

/// What ends a run from outside.
#[derive(Clone, Copy)]
pub(crate) struct Outside<'a> {
    /// Signals to guardexec.
    pub caught: &'a Caught,
    /// The caller's own word.
    pub stop: Stop<'a>,
}

/// Runs a confinement to its end. Whatever way it ends, nothing of the tree is left afterwards (but see
/// [`Ended::unreaped`]), and nothing at all once [`Ended::leaving`] is dropped.
///
/// The process must have one thread. Meanwhile its signal handlers are replaced, its working directory is changed
/// and put back, and it becomes non-dumpable for good. Errors: nothing was run.
pub fn run(confinement: Confinement, sinks: &mut Sinks, stop: Stop<'_>) -> Result<Ended, RunError> {
    if let Some(n) = process::thread_count().filter(|&n| n > 1) {
        return Err(RunError::Threads(n));
    }
    let caught = Caught::install(&END_SIGNALS)?;
    let outside = Outside { caught: &caught, stop };
    let mut cgroups = Cgroups::new(&confinement);
    let mut refusal = None;
    if confinement.tree != TreeKind::Groups {
        for way in Namespace::ways() {
            match try_way(&confinement, Some(&way), &mut cgroups, outside, sinks, refusal)? {
                Attempt::Ended(ended) => return Ok(*ended),
                Attempt::Unable(step, errno) => refusal = Some((step, errno)),
            }
        }
    }
    if let (true, Some((step, errno))) = (confinement.tree.demands_namespace(), refusal) {
        return Err(RunError::NoTree { step, errno });
    }
    let grouped = try_way(&confinement, None, &mut cgroups, outside, sinks, refusal);
    match grouped.map_err(|error| for_want_of_namespace(error, refusal))? {
        Attempt::Ended(ended) => Ok(*ended),
        Attempt::Unable(step, errno) => Err(RunError::NoTree { step, errno }),
    }
}

/// A layer that could be had in the namespace that was refused: the refusal is the cause, and what has a remedy.
fn for_want_of_namespace(error: RunError, refusal: Option<(Step, i32)>) -> RunError {
    match (error, refusal) {
        (RunError::Prepare(error), Some((step, errno))) => {
            error.for_want_of_namespace(&format!("could not {step}"), errno).into()
        }
        (error, _) => error,
    }
}

/// One way to hold the tree: with a cgroup where there is to be one and, unless the policy demands it, without one
/// where the child cannot be born in it.
fn try_way(
    c: &Confinement,
    way: Option<&Namespace>,
    cgroups: &mut Cgroups,
    outside: Outside<'_>,
    sinks: &mut Sinks,
    refusal: Option<(Step, i32)>,
) -> Result<Attempt, RunError> {
    let cgroup = cgroups.make(c, way.is_some())?;
    let had = cgroup.is_some();
    match front::attempt(c, way, cgroup, outside, sinks, refusal)? {
        Attempt::Unable(Step::Cgroup, errno) if had && !c.tree.demands_cgroup() => {
            cgroups.give_up(errno);
            front::attempt(c, way, None, outside, sinks, refusal)
        }
        other => Ok(other),
    }
}
