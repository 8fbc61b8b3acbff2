//! Standard input from a file, as the run itself could open it.
//!
//! guardexec has opened the file with its own rights, which may be root's; a request names it, and a request can only
//! tighten. So the child opens it once more, by its path, when it has become the run's user and is confined, and reads
//! from that. What the run could not read by itself it is not handed either.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;

use super::Builder;
use crate::program::descriptor_path;
use crate::sandbox::{Input, PrepareError, Stage, Step, raw};

impl Builder<'_> {
    /// Adds the step. An anonymous pipe has no path: whoever handed it to guardexec holds it open already.
    pub(super) fn input(&mut self) -> Result<(), PrepareError> {
        let Input::File(file) = &self.job.input else { return Ok(()) };
        let path = std::fs::read_link(descriptor_path(file))?;
        if !path.is_absolute() {
            return Ok(());
        }
        let path = CString::new(path.as_os_str().as_bytes()).map_err(std::io::Error::from)?;
        let apply = move || {
            let again = raw::open(&path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY)?;
            raw::become_stdin(&again)
        };
        self.step(Step::Input, Stage::Confine, Vec::new(), Box::new(apply));
        Ok(())
    }
}
