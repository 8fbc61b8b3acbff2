//! What the run's user has to reach, for the choice of that user.

use super::super::Confinement as Job;
use super::super::identity::Need;
use crate::policy::model::{Filesystem, Profile};
use crate::program::ProgramKind;

/// The working directory, the program, and what is written.
pub(super) fn of(job: &Job) -> Vec<Need> {
    let workspace = job.wanted.profile == Profile::Workspace;
    let Filesystem { write, .. } = &job.wanted.filesystem;
    let mut needs = vec![
        Need { path: job.cwd.clone(), bits: if workspace { 0o7 } else { 0o5 } },
        Need {
            path: job.program_path.clone(),
            bits: if job.kind == ProgramKind::Script { 0o5 } else { 0o1 },
        },
    ];
    needs.extend(write.iter().flatten().filter_map(|path| {
        let bits = if path.metadata().ok()?.is_dir() { 0o7 } else { 0o6 };
        Some(Need { path: path.clone(), bits })
    }));
    needs
}
