//! Waiting for what the asker's guardexec cannot have yet: an answer in the store, or the end of its own standard input.

use std::os::fd::AsFd as _;
use std::time::Duration;

use super::queue::Filed;
use super::refusal::{refusal, unbindable};
use super::vigil::{Vigil, Woke};
use super::{Reply, shown_time};
use crate::decision::Denial;
use crate::run::Stop;
use crate::state::approvals::{self, State};
use crate::state::{StateError, View};
use crate::sys::fd;

/// How often the store is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The most standard input that can be approved, in bytes: it is held in memory, so that what was hashed is what is read.
pub const MOST_INPUT: usize = 16 << 20;

/// What ended the wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// It does not wait for an answer any more.
    Settled,
    /// Somebody else is to be told now; the wait goes on afterwards.
    Escalation,
    /// There was no answer in time.
    Late,
    /// guardexec was told to end, by this signal.
    Cancelled(i32),
    /// Everything has to stop.
    Stopped,
}

/// Waits until the request of this id is answered. `escalates`: whether the caller can tell somebody else.
///
/// # Errors
/// As every use of the store.
pub fn answer(view: &mut View, id: &str, vigil: &Vigil<'_>, escalates: bool) -> Result<Waited, StateError> {
    let broken = |error| StateError::Io { path: "/proc".into(), doing: "wait with", source: error };
    loop {
        let (waits, due) = view.read(|db, now| {
            let waits = approvals::state(db, now, id)? == Some(State::Pending);
            Ok((waits, escalates && approvals::escalation_is_due(db, now)?))
        })?;
        match (waits, due) {
            (false, _) => return Ok(Waited::Settled),
            (true, true) => return Ok(Waited::Escalation),
            (true, false) => {}
        }
        match vigil.wait(None, Some(LOOK)).map_err(broken)? {
            Woke::Ready | Woke::Tick => {}
            Woke::Late => return Ok(Waited::Late),
            Woke::Cancelled(signal) => return Ok(Waited::Cancelled(signal)),
            Woke::Stopped => return Ok(Waited::Stopped),
        }
    }
}

/// The refusal where nobody answered for as long as the caller waits.
pub fn unanswered(filed: &Filed, waited: Duration) -> Box<Denial> {
    let id = &filed.id;
    let message = format!("nobody answered approval {id} within {}", shown_time(waited));
    let until = &filed.expires_at;
    let hint = match filed.output {
        true => format!(
            "it did run, do not run it again; it can still be answered until {until}: then get its result with --approval {id} \
             and no command"
        ),
        false => format!("it can still be answered until {until}; then run it with --approval {id}"),
    };
    refusal("approval_timeout", message, hint)
}

/// Reads guardexec's own standard input to its end, so that what a person approves can be told and nothing else is read.
///
/// # Errors
/// It does not end in time, is larger than [`MOST_INPUT`], cannot be read, or guardexec has to end.
pub fn own_input(most: Duration, stop: Stop<'_>) -> Result<Vec<u8>, Reply> {
    let refused = |why: String| Reply::refused(unbindable(format!("standard input {why}")));
    let broken = |error: std::io::Error| refused(format!("cannot be read: {}", super::files::reason(&error)));
    let vigil = Vigil::begin(most, stop).map_err(broken)?;
    let from = fd::standard(0);
    let (mut all, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match vigil.wait(Some((from.as_fd(), libc::POLLIN)), None).map_err(broken)? {
            Woke::Ready => {}
            Woke::Tick => continue,
            Woke::Late => return Err(refused(format!("did not end within {}", shown_time(most)))),
            Woke::Cancelled(signal) => return Err(Reply::Cancelled(signal)),
            Woke::Stopped => return Err(Reply::Stopped),
        }
        match fd::read(from, &mut piece) {
            Ok(0) => return Ok(all),
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(broken(error)),
        }
        if all.len() > MOST_INPUT {
            return Err(refused("is larger than 16 MiB".into()));
        }
    }
}

#[cfg(test)]
mod tests;
