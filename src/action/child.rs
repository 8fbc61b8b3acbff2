//! The process that does it.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use nix::unistd::{Pid, getppid};

use super::beneath::Beneath;
use super::said::{Said, Step};
use super::shield::Shield;
use super::{delete, identity, list, read, write};
use crate::decision::ActionCall;
use crate::policy::model::ActionKind;
use crate::sys::{fd, process};

/// Everything that the child needs.
pub(super) struct Work {
    /// What is to be done.
    pub call: ActionCall,
    /// The root, opened.
    pub root: OwnedFd,
    /// The same, canonical.
    pub root_path: PathBuf,
    /// What must not be touched.
    pub shield: Shield,
    /// Only looks what there is, and says it: nothing is read, written or deleted.
    pub look: bool,
}

/// Does it in a process that was just forked, says how it went, and never returns. `parent` is guardexec.
pub(super) fn main(work: Work, answer: OwnedFd, parent: process::Pid) -> ! {
    let body = std::panic::AssertUnwindSafe(|| {
        // Among the rest is the lock of a session's run, which must not outlive guardexec by a child of it.
        fd::close_all_but(&mut [0, 1, 2, answer.as_raw_fd(), work.root.as_raw_fd()]);
        let ready = identity::assume(&work.root).and_then(|()| follow(parent));
        tell(&answer, &ready.map_or_else(|end| end, |()| act(&work)).into_bytes());
    });
    // A panic must not unwind into the parent's half of the program.
    let _ = std::panic::catch_unwind(body);
    process::exit_now(0)
}

/// Binds this process's life to guardexec's, after it has become whom it stays: the kernel forgets the signal with a change
/// of user (prctl(2)). A guardexec that died before the first line is told of it by the second.
pub(super) fn follow(parent: process::Pid) -> Step<()> {
    let broken = |why: String| Said::Broken(format!("cannot follow guardexec into its end: {why}"));
    process::set_parent_death_signal(libc::SIGKILL).map_err(|error| broken(error.to_string()))?;
    match getppid() == Pid::from_raw(parent) {
        true => Ok(()),
        false => Err(broken("it is gone already".to_owned())),
    }
}

/// A reader that is gone has no use for it.
fn tell(answer: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match fd::write(answer.as_fd(), bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Does the action, as whoever this process is.
pub(super) fn act(work: &Work) -> Said {
    let place = Beneath::new(&work.root, &work.root_path, &work.call, &work.shield);
    let done = place.and_then(|place| match work.call.kind {
        kind if work.look => look(kind, &place).map(String::into_bytes),
        ActionKind::ReadFile => read::read(&place),
        ActionKind::WriteFile => write::write(place),
        ActionKind::ListDir => list::list(&place),
        ActionKind::DeleteFile => delete::delete(&place),
    });
    done.map_or_else(|end| end, Said::Done)
}

fn look(kind: ActionKind, place: &Beneath<'_>) -> Step<String> {
    match kind {
        ActionKind::ReadFile => read::look(place),
        ActionKind::WriteFile => write::look(place),
        ActionKind::ListDir => list::look(place),
        ActionKind::DeleteFile => delete::look(place),
    }
}
