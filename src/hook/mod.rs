//! The policy's own programs: run with limits, a clean environment and no secrets, one JSON document in and one out.
//!
//! Each runs under [`run::run`](crate::run::run), as every run does, in a process forked for it alone (`runner`): so
//! several run side by side, and nothing of guardexec's own state is disturbed. guardexec itself waits for all of
//! them in one poll loop (`attend`) with bounds of its own, and ends what does not answer. When guardexec dies, by whatever
//! means, they die with all that they started.

mod answer;
mod attend;
mod runner;
#[cfg(test)]
pub(crate) mod tests;
mod trusted;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

pub use attend::{run, run_all};
pub use trusted::{INTERPRETERS, open, started_by_env};

use crate::policy::model::Hook;
use crate::run::LimitKind;

/// The most that is kept of what a hook wrote to its standard error: the last bytes.
pub const STDERR_TAIL: usize = 1 << 10;

/// How many run at once; the next one starts when one has ended.
pub const SIDE_BY_SIDE: usize = 16;

/// One program to be run.
#[derive(Debug)]
pub struct Job<'a> {
    /// By what name the policy knows it. The program is told so in `GUARDEXEC_HOOK`.
    pub name: &'a str,
    /// What is run.
    pub hook: &'a Hook,
    /// What it reads on its standard input. It need not read it.
    pub input: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
    /// The policy's search path ([`policy_path`](crate::decision::policy_path)).
    pub path: &'a [PathBuf],
}

/// What came of it. Nothing of it is alive any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It ended by itself.
    Exited {
        /// Its status.
        code: i32,
        /// What it wrote; the beginning where it was too much.
        stdout: Vec<u8>,
        /// It wrote more than is kept (1 MiB).
        truncated: bool,
        /// The last [`STDERR_TAIL`] bytes of what it wrote to standard error. Hostile text, and it may repeat what it read.
        stderr: Vec<u8>,
    },
    /// This signal ended it.
    Signaled {
        /// The number.
        signal: i32,
        /// As above.
        stderr: Vec<u8>,
    },
    /// It took too long.
    TimedOut,
    /// It passed another limit.
    Limit(LimitKind),
    /// It was not started; one sentence, safe to print.
    NotStarted(String),
    /// guardexec got this signal and ended it.
    Cancelled(i32),
    /// Whoever ran it wanted it stopped.
    Stopped,
    /// Nobody can say what came of it; one sentence, safe to print.
    Lost(String),
}

impl Heard {
    /// Why this is no answer, to stand behind the program's name; `None` where it ended with status 0.
    pub fn failure(&self) -> Option<String> {
        Some(match self {
            Heard::Exited { code: 0, .. } => return None,
            Heard::Exited { code, .. } => format!("it exited with status {code}"),
            Heard::Signaled { signal, .. } => format!("signal {signal} ended it"),
            Heard::TimedOut => "it did not answer in time".to_owned(),
            Heard::Limit(kind) => format!("it passed its limit {}", kind.as_str()),
            Heard::NotStarted(why) => format!("it was not started: {why}"),
            Heard::Cancelled(signal) => format!("guardexec was ended by signal {signal} meanwhile"),
            Heard::Stopped => "it was stopped".to_owned(),
            Heard::Lost(why) => why.clone(),
        })
    }

    /// The signal that guardexec got meanwhile. Whoever runs a hook has taken it, and has to end for it.
    pub fn cancelled(&self) -> Option<i32> {
        match self {
            Heard::Cancelled(signal) => Some(*signal),
            _ => None,
        }
    }

    /// The last bytes of its standard error, where there are any.
    pub fn stderr(&self) -> &[u8] {
        match self {
            Heard::Exited { stderr, .. } | Heard::Signaled { stderr, .. } => stderr,
            _ => &[],
        }
    }
}
