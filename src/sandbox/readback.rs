//! The kernel's own word that the confinement is on, asked in the child just before the exec: a layer that a result names
//! was seen to refuse something. Some microseconds.

use super::raw::{self, Errno};

/// What can be asked.
#[derive(Debug, Clone, Copy)]
pub struct Readback {
    /// A system call filter is on.
    pub filtered: bool,
    /// No socket can be made.
    pub no_sockets: bool,
    /// Reading the root directory, which everybody may and no profile grants, is refused (by Landlock).
    pub root_refused: bool,
}

impl Readback {
    /// Asks. Raw calls only.
    ///
    /// # Errors
    /// `ENOTRECOVERABLE` where something that was applied is not on.
    pub fn check(&self) -> Result<(), Errno> {
        let mut holds = raw::has_no_new_privs();
        if self.filtered {
            holds &= raw::seccomp_mode() == Ok(2);
        }
        if self.no_sockets {
            holds &= raw::make_socket() == Err(libc::EACCES);
        }
        if self.root_refused {
            holds &= raw::open(c"/", libc::O_RDONLY | libc::O_DIRECTORY).err() == Some(libc::EACCES);
        }
        if holds { Ok(()) } else { Err(libc::ENOTRECOVERABLE) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw::attack::{Ended, Who, in_child};
    use super::*;

    #[test]
    fn nothing_is_taken_for_something() {
        let all = [(true, false, false), (false, true, false), (false, false, true)];
        for (filtered, no_sockets, root_refused) in all {
            let readback = Readback { filtered, no_sockets, root_refused };
            let ended = in_child(Who::Same, || {
                raw::no_new_privs().unwrap();
                i32::from(readback.check().is_ok())
            });
            assert_eq!(ended, Ended::Exited(0), "{readback:?} was believed without confinement");
        }
        let nothing = Readback { filtered: false, no_sockets: false, root_refused: false };
        let bare = in_child(Who::Same, || i32::from(nothing.check().is_ok() != raw::has_no_new_privs()));
        assert_eq!(bare, Ended::Exited(0), "no_new_privs is always asked for");
    }
}
