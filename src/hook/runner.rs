//! The process that runs one hook: forked from guardexec, one thread, nothing of its parent's but the pipe by which it
//! answers. It never returns.

use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::unistd::{Pid, getppid};

use super::{Heard, Job, STDERR_TAIL, trusted, wire};
use crate::decision::{Facts, Hooked, for_hook};
use crate::run::{self, Ended, How, LimitKind, Sinks, Stop};
use crate::sandbox::Confinement;
use crate::sys::{fd, process};

/// Runs `job` and says what came of it. `parent` is guardexec.
pub fn work(job: &mut Job<'_>, facts: &Facts, stop: Stop<'_>, parent: process::Pid, to: OwnedFd) -> ! {
    let body = std::panic::AssertUnwindSafe(|| {
        // A runner whose guardexec died before the first line is told of it by the second.
        let bound =
            process::set_parent_death_signal(libc::SIGKILL).is_ok() && getppid() == Pid::from_raw(parent);
        if !bound {
            return;
        }
        // Out of the terminal's reach: it is guardexec that is told, and that tells us.
        let _ = process::new_session();
        fd::close_all_but(&mut [0, 1, 2, to.as_raw_fd()]);
        let heard = hear(job, facts, stop);
        let _ = std::fs::File::from(to).write_all(&wire::encode(&heard));
    });
    // A panic must not unwind into guardexec's half of the program.
    let _ = std::panic::catch_unwind(body);
    process::exit_now(0)
}

fn hear(job: &mut Job<'_>, facts: &Facts, stop: Stop<'_>) -> Heard {
    let confinement = match confine(job, facts) {
        Ok(confinement) => confinement,
        Err(why) => return Heard::NotStarted(bounded(why)),
    };
    match run::run(confinement, &mut Sinks::keep(), stop) {
        Ok(ended) => heard_of(ended),
        Err(error) => Heard::NotStarted(bounded(error.to_string())),
    }
}

fn confine(job: &mut Job<'_>, facts: &Facts) -> Result<Confinement, String> {
    let program = trusted::open(job.hook, job.path)?;
    let hooked = Hooked {
        name: job.name,
        hook: job.hook,
        program,
        input: std::mem::take(&mut job.input),
        timeout: job.timeout,
        path: job.path,
    };
    let grant = for_hook(hooked, facts).map_err(|error| error.to_string())?;
    Confinement::prepare(grant, Vec::new()).map_err(|error| error.to_string())
}

fn heard_of(ended: Ended) -> Heard {
    if ended.unreaped {
        return Heard::Lost("a process of it could not be ended".to_owned());
    }
    match ended.limit {
        Some(LimitKind::WallTime) => return Heard::TimedOut,
        Some(kind) => return Heard::Limit(kind),
        None => {}
    }
    let stderr = || {
        let kept = ended.stderr.kept();
        kept[kept.len().saturating_sub(STDERR_TAIL)..].to_vec()
    };
    match ended.how {
        How::Exited(code) => {
            let truncated = ended.stdout.truncated();
            let stdout = if truncated { ended.stdout.head().to_vec() } else { ended.stdout.kept() };
            Heard::Exited { code, stdout, truncated, stderr: stderr() }
        }
        How::Signaled(signal, _) => Heard::Signaled { signal, stderr: stderr() },
        How::NotStarted { step, errno } => {
            let why = std::io::Error::from_raw_os_error(errno);
            Heard::NotStarted(bounded(format!("could not {step}: {why}")))
        }
        How::Cancelled(signal) => Heard::Cancelled(signal),
        How::Stopped => Heard::Stopped,
        How::Unknown => Heard::Lost("it was killed by somebody else".to_owned()),
    }
}

/// A sentence as long as a frame holds; such a sentence can have a path in it.
fn bounded(mut sentence: String) -> String {
    let end = (0..=STDERR_TAIL.min(sentence.len())).rev().find(|&at| sentence.is_char_boundary(at));
    sentence.truncate(end.unwrap_or(0));
    sentence
}
