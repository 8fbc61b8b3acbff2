//! What the run must not touch though it may write around it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;

use super::Builder;
use crate::policy::model::{Layer, Profile};
use crate::request::quote;
use crate::sandbox::PrepareError;
use crate::sandbox::view::View;

impl Builder<'_> {
    /// Without mounts nothing keeps a file in a writable tree. A run that could write its own record does not start;
    /// under `host`, which keeps nothing from anybody, the record is as good as the run.
    pub(super) fn recorded(&self, view: &View) -> Result<(), PrepareError> {
        if self.wanted.profile == Profile::Host {
            return Ok(());
        }
        let open =
            self.job.recorded.iter().find(|file| view.writable.iter().any(|dir| file.starts_with(dir)));
        open.map_or(Ok(()), |file| {
            Err(PrepareError::Policy(format!(
                "the audit file {} lies where the run may write, and without a mount namespace nothing keeps it from the run",
                quote::display(file.as_os_str().as_bytes())
            )))
        })
    }

    /// A kill switch is not there as long as it is off, so nothing can be put over it: it may not lie where the run may write.
    pub(super) fn switchable(&self, view: &View) -> Result<(), PrepareError> {
        if self.wanted.profile == Profile::Host {
            return Ok(());
        }
        let open = |file: &&PathBuf| {
            let dir = file.parent().unwrap_or(file);
            let dir = crate::sys::canonical(dir).unwrap_or_else(|_| dir.to_owned());
            view.writable.iter().any(|writable| dir.starts_with(writable))
        };
        self.job.switches.iter().find(open).map_or(Ok(()), |file| {
            Err(PrepareError::Policy(format!(
                "the kill switch {} lies where the run may write: name one elsewhere in [kill_switch]",
                quote::display(file.as_os_str().as_bytes())
            )))
        })
    }

    /// What the policy denies, where it does not exist yet: no mount can cover it.
    pub(super) fn refuse(&mut self, view: &View) {
        for path in self.wanted.filesystem.deny.iter().flatten() {
            self.layers.planted.refuse(path, &view.writable);
        }
    }

    /// What only mounts could keep from the run.
    pub(super) fn holes(&mut self, holes: &[&Path]) {
        let shown: Vec<String> =
            holes.iter().take(4).map(|path| quote::display(path.as_os_str().as_bytes())).collect();
        let more = match holes.len() {
            0 => return,
            1..=4 => String::new(),
            n => format!(" and {} more", n - 4),
        };
        let what = shown.join(", ");
        self.unheld(
            Layer::Filesystem,
            format!("without a mount namespace {what}{more} cannot be kept from the run"),
        );
    }
}
