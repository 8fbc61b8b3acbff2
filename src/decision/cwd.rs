//! Where the run starts: opened once, and then only that directory counts, whatever its name leads to later.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{Uid, User, getuid};

use super::{Denial, Facts, Judged, Match, Stage};
use crate::decision::shown::repr;
use crate::program::{canonical_path, open_by_path};
use crate::sys::canonical;

#[cfg(test)]
mod tests;

/// An opened working directory.
#[derive(Debug)]
pub(super) struct Opened {
    /// Canonical, read from the descriptor.
    pub path: PathBuf,
    /// `O_PATH | O_DIRECTORY`, close-on-exec.
    pub fd: OwnedFd,
}

/// Opens the directory asked for, or the one guardexec was started in. Links and `/proc/self/fd` are followed here
/// and nowhere else.
pub(super) fn open(asked: Option<&Path>, facts: &Facts) -> Judged<Opened> {
    let invalid = |message: String| {
        Denial::new(Stage::Arguments, "cwd_invalid", message)
            .hint("name an existing directory with --cwd")
            .invalid()
    };
    let start = facts.start_dir.as_deref();
    let path = match (asked, start) {
        (None, Some(start)) => start.to_path_buf(),
        (Some(asked), _) if asked.is_absolute() => asked.to_path_buf(),
        (Some(asked), Some(start)) if !asked.as_os_str().is_empty() => start.join(asked),
        (Some(asked), Some(_)) => return invalid(format!("working directory {} is empty", shown(asked))),
        (_, None) => {
            return invalid("the working directory guardexec was started in does not exist any more".into());
        }
    };
    let opened = open_by_path(&path, OFlag::O_DIRECTORY).and_then(|(fd, direct)| {
        if direct {
            return Ok(Opened { path: path.clone(), fd });
        }
        let stat = nix::sys::stat::fstat(&fd)?;
        Ok(Opened { path: canonical_path(&fd, &stat)?, fd })
    });
    match opened {
        Ok(opened) => Ok(opened),
        Err(errno) => invalid(format!("working directory {} cannot be used: {}", shown(&path), errno.desc())),
    }
}

/// Whether every deciding rule lets a run start there.
pub(super) fn permit(opened: &Opened, matches: &[Match<'_>], facts: &Facts) -> Judged<()> {
    for found in matches {
        let filesystem = found.filesystem();
        let written = filesystem.cwd.as_deref();
        if !lies_in(&opened.path, written, facts) {
            let roots = match (written, &facts.start_dir) {
                (Some(roots), _) => roots.to_vec(),
                (None, start) => start.iter().cloned().collect(),
            };
            return Err(Box::new(super::Decision::Deny(refusal(&opened.path, &roots, facts).by(found.rule))));
        }
    }
    Ok(())
}

fn lies_in(cwd: &Path, written: Option<&[PathBuf]>, facts: &Facts) -> bool {
    let default: Vec<PathBuf> = facts.start_dir.iter().cloned().collect();
    // The working directory is canonical: what is spelled the same is too.
    let real = |root: &PathBuf| if root == cwd { Some(root.clone()) } else { canonical(root).ok() };
    let mut roots = written.unwrap_or(&default).iter().filter_map(real);
    if is_bare(cwd, facts) {
        // Everything lies below these: a run starts in them only where the policy writes exactly that.
        return written.is_some() && roots.any(|root| root == cwd);
    }
    roots.any(|root| cwd.starts_with(root))
}

/// `/`, or a home directory itself: the caller's, root's, or that of whoever owns the directory.
fn is_bare(cwd: &Path, facts: &Facts) -> bool {
    is_bare_by(cwd, facts, |uid| Some(User::from_uid(Uid::from_raw(uid)).ok()??.dir))
}

fn is_bare_by(cwd: &Path, facts: &Facts, home_of: impl Fn(u32) -> Option<PathBuf>) -> bool {
    let is = |home: &Path| cwd == home || canonical(home).is_ok_and(|home| home == cwd);
    if cwd == Path::new("/") || is(&facts.home) || is(Path::new("/root")) {
        return true;
    }
    // The caller's own home is known already: the user database is asked for others' alone.
    let owner = cwd.metadata().ok().map(|metadata| metadata.uid()).filter(|uid| *uid != getuid().as_raw());
    owner.and_then(home_of).is_some_and(|home| is(&home))
}

fn refusal(cwd: &Path, roots: &[PathBuf], facts: &Facts) -> Denial {
    let roots: Vec<&[u8]> = roots.iter().map(|r| r.as_os_str().as_bytes()).collect();
    let allowed = super::values::list(&roots);
    let (why, hint) = if is_bare(cwd, facts) {
        (
            "is one that everything lies below: the policy has to write it out".to_owned(),
            "start in a directory below it; / or a home itself must be written out in [filesystem] cwd",
        )
    } else {
        (
            format!("is not one where runs may start: {allowed} and below"),
            "choose a directory in that list with --cwd",
        )
    };
    Denial::new(Stage::Arguments, "cwd_denied", format!("working directory {} {why}", shown(cwd))).hint(hint)
}

fn shown(path: &Path) -> String {
    repr(path.as_os_str().as_bytes())
}
