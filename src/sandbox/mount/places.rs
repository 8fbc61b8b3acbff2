//! Where on this machine a private tmp can be.

use std::path::{Path, PathBuf};

use crate::policy::model::Filesystem;
use crate::sys::canonical;
use crate::sys::path::{is_same, is_within};

/// Where a private tmp can be; the first that the run does not need from the host is `TMPDIR`, the others show the same.
pub(super) const TMP_DIRS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// The directories to put a private tmp on, looked up once a run.
#[derive(Debug, Clone)]
pub struct TmpPlaces(Vec<PathBuf>);

impl TmpPlaces {
    /// Those that this machine has, canonical.
    pub fn find() -> TmpPlaces {
        let mut dirs = Vec::new();
        for dir in TMP_DIRS {
            let Ok(dir) = canonical(Path::new(dir)) else { continue };
            if !dirs.contains(&dir) && dir.is_dir() {
                dirs.push(dir);
            }
        }
        TmpPlaces(dirs)
    }

    /// Where the private tmp of a run will be, for the view and the environment; `None` where the policy or the
    /// working directory claims every place.
    pub fn first<'a>(&self, cwd: &'a Path, lists: &'a Filesystem) -> Option<PathBuf> {
        let named = lists.read.iter().chain(&lists.write).flatten().map(PathBuf::as_path);
        self.free(named.chain([cwd])).into_iter().next()
    }

    /// Those that none of the `named` paths is or contains.
    pub(super) fn free<'a>(&self, named: impl Iterator<Item = &'a Path> + Clone) -> Vec<PathBuf> {
        let taken =
            |dir: &Path| named.clone().any(|path| is_within(dir, path) && !is_same(path, Path::new("/")));
        self.0.iter().filter(|dir| !taken(dir)).cloned().collect()
    }
}
