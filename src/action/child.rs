//! The process that does it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use super::beneath::Beneath;
use super::said::Said;
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
}

/// Does it in a process that was just forked, says how it went, and never returns.
pub(super) fn main(work: Work, answer: OwnedFd) -> ! {
    let body = std::panic::AssertUnwindSafe(|| {
        let said = match process::set_parent_death_signal(libc::SIGKILL) {
            Ok(()) => identity::assume(&work.root).map_or_else(|end| end, |()| act(&work)),
            Err(error) => Said::Broken(format!("cannot follow guardexec into its end: {error}")),
        };
        tell(&answer, &said.into_bytes());
    });
    // A panic must not unwind into the parent's half of the program.
    let _ = std::panic::catch_unwind(body);
    process::exit_now(0)
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
        ActionKind::ReadFile => read::read(&place),
        ActionKind::WriteFile => write::write(place),
        ActionKind::ListDir => list::list(&place),
        ActionKind::DeleteFile => delete::delete(&place),
    });
    done.map_or_else(|end| end, Said::Done)
}
