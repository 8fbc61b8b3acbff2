//! What in the directories that a `workspace` run may write is not the run's.

use std::path::PathBuf;

use super::Builder;
use crate::policy::model::Profile;
use crate::sandbox::mount::keep::{self, Kept};
use crate::sandbox::planted::Planted;
use crate::sandbox::repositories::Repositories;

impl Builder<'_> {
    /// What in a writable workspace the host would act on, and what must not appear there.
    pub(super) fn workspace(&mut self) -> Kept {
        if self.wanted.profile != Profile::Workspace {
            return Kept::default();
        }
        let roots = self.roots();
        let found = Repositories::below(&roots);
        let kept = keep::find(&roots, &found);
        if kept.incomplete {
            self.layers.warnings.push(
                "what the run may write is large: repositories deep inside it were not all found, and are not protected".into(),
            );
        }
        self.layers.planted = Planted::watch(roots, &kept.absent, &kept.links, found);
        kept
    }

    /// The directories that the run may write, none of which lies in another.
    fn roots(&self) -> Vec<PathBuf> {
        let listed = self.wanted.filesystem.write.iter().flatten();
        let listed = listed.filter_map(|path| crate::sys::canonical(path).ok()).filter(|path| path.is_dir());
        let mut roots: Vec<PathBuf> = listed.chain([self.job.cwd.clone()]).collect();
        roots.sort_unstable();
        roots.dedup_by(|path, above| path.starts_with(above));
        roots
    }
}
