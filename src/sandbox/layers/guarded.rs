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

    /// What is not there yet cannot be kept by a mount, and would be whatever the run makes of it: a kill switch that is off, a
    /// program that guardexec is to run. None of them may lie where the run may write.
    pub(super) fn unmade(&self, view: &View) -> Result<(), PrepareError> {
        if self.wanted.profile == Profile::Host {
            return Ok(());
        }
        let open = |file: &&PathBuf| {
            let above = file.ancestors().skip(1).find_map(|dir| crate::sys::canonical(dir).ok());
            above.is_some_and(|dir| view.writable.iter().any(|writable| dir.starts_with(writable)))
        };
        let shown = |file: &PathBuf| quote::display(file.as_os_str().as_bytes());
        if let Some(file) = self.job.switches.iter().find(open) {
            return Err(PrepareError::Policy(format!(
                "the kill switch {} lies where the run may write: name one elsewhere in [kill_switch]",
                shown(file)
            )));
        }
        self.job.unmade.iter().find(open).map_or(Ok(()), |file| {
            Err(PrepareError::Policy(format!(
                "{}, which the policy leads to, does not exist, and lies where the run may write: make it, or name one elsewhere",
                shown(file)
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
