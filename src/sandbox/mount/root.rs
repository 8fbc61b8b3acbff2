//! A root directory of the run's own, for a `map` whose mount point does not exist: a small tmpfs with the host's directories
//! mounted in it, so that nothing is made on the host.

use std::path::{Path, PathBuf};

use super::{Error, Step, c_path};

/// Whether some mount point is missing, and can be made: its first component must be a new name in `/`.
///
/// # Errors
/// [`Error::MapTarget`] for a missing path below an existing directory.
pub(super) fn missing(map: &[(PathBuf, PathBuf)]) -> Result<Vec<&Path>, Error> {
    let mut missing = Vec::new();
    for (seen, _) in map {
        if seen.exists() {
            continue;
        }
        let top = seen.ancestors().filter(|path| *path != Path::new("/")).last();
        match top {
            Some(top) if top.symlink_metadata().is_err() && seen.is_absolute() => {
                missing.push(seen.as_path())
            }
            _ => return Err(Error::MapTarget(seen.clone())),
        }
    }
    Ok(missing)
}

/// The steps that build the root at `stage` and enter it, with directories for `points`.
pub(super) fn steps(stage: &Path, points: &[&Path]) -> Result<Vec<Step>, Error> {
    let data = c"size=1M,nr_inodes=1024,mode=755".to_owned();
    let mut steps = vec![Step::Tmpfs { at: c_path(stage)?, data }];
    let unlisted = |_| Error::Path(PathBuf::from("/"));
    for entry in std::fs::read_dir("/").map_err(unlisted)? {
        let entry = entry.map_err(unlisted)?;
        let (from, at) = (entry.path(), stage.join(entry.file_name()));
        let kind = entry.file_type().map_err(unlisted)?;
        if kind.is_symlink() {
            let to = std::fs::read_link(&from).map_err(unlisted)?;
            steps.push(Step::Link { to: c_path(&to)?, path: c_path(&at)? });
        } else if kind.is_dir() {
            steps.push(Step::MakeDir(c_path(&at)?, 0o755));
            // The stage itself gets the private tmp.
            if from != stage {
                steps.push(Step::Show { from: c_path(&from)?, at: c_path(&at)?, read_only: false });
            }
        }
    }
    for point in points {
        let below: Vec<&Path> = point.ancestors().take_while(|path| *path != Path::new("/")).collect();
        for dir in below.iter().rev() {
            let inside = stage.join(dir.strip_prefix("/").unwrap_or(dir));
            steps.push(Step::MakeDir(c_path(&inside)?, 0o755));
        }
    }
    steps.push(Step::Enter(c_path(stage)?));
    // The new root too; all that is mounted in it is read-only already.
    steps.push(Step::ReadOnly);
    Ok(steps)
}
