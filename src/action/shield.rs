//! What no action touches: what policies deny, and the files that policies lead to. Known by what they are (device and
//! inode), so that a hard link or a mount elsewhere is no way to them, and by their directory and name, so that none can be
//! made where it does not exist. What lies in a denied directory nobody lists: there may be very much, or no permission to.
//! So no file is read that has a second name, which may lie there.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::sys::stat::{FileStat, SFlag, fstat};

use super::said::{Said, Step, shown};
use crate::decision::ActionCall;
use crate::policy::model::ActionKind;

/// Device and inode.
type Identity = (u64, u64);

#[derive(Debug)]
struct Mark {
    /// What stands there, if anything does.
    itself: Option<Identity>,
    /// The directory it stands in, and its name there.
    place: Option<(Identity, OsString)>,
    /// It is one of guardexec's own.
    own: bool,
}

/// Everything that is kept from an action.
#[derive(Debug, Default)]
pub(super) struct Shield {
    marks: Vec<Mark>,
    /// The root itself lies in something that is denied.
    everything: bool,
    /// Another name of a file may be in a directory whose files are not among the marks.
    second_names: bool,
}

impl Shield {
    /// Looks everything up once, before the child exists: it may not be able to.
    pub(super) fn raise(root: &Path, denied: &[PathBuf], guarded: &[PathBuf]) -> Shield {
        let real = |path: &PathBuf| crate::sys::canonical(path).ok();
        let everything = denied.iter().chain(guarded).filter_map(real).any(|path| root.starts_with(path));
        let listed = |path: &PathBuf| files_in(path).ok();
        let within: Vec<Option<Vec<PathBuf>>> = guarded.iter().map(listed).collect();
        let second_names = denied.iter().any(|path| may_hold_files(path)) || within.contains(&None);
        let own = guarded.iter().chain(within.iter().flatten().flatten()).map(|path| Mark::of(path, true));
        let marks = denied.iter().map(|path| Mark::of(path, false)).chain(own).collect();
        Shield { marks, everything, second_names }
    }

    /// Whether the way may lead through this directory.
    pub(super) fn passes(&self, call: &ActionCall, dir: &OwnedFd) -> Step<()> {
        if self.everything {
            return refused(call, false);
        }
        let stat = fstat(dir).map_err(|errno| super::said::cannot(call, errno))?;
        self.passes_file(call, &stat)
    }

    /// Whether this may be touched.
    pub(super) fn passes_file(&self, call: &ActionCall, stat: &FileStat) -> Step<()> {
        let found = (stat.st_dev, stat.st_ino);
        self.settle(call, |mark| mark.itself == Some(found))?;
        let is_file = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        if self.second_names && is_file && stat.st_nlink > 1 && call.kind == ActionKind::ReadFile {
            return Said::refused(
                format!(
                    "{} has more than one name (hard links), and another may lie in what [filesystem] deny keeps from everybody",
                    shown(call)
                ),
                "a person can put a copy of the file in its place",
            );
        }
        Ok(())
    }

    /// Whether this name may be touched, be there something or not.
    pub(super) fn passes_name(&self, call: &ActionCall, dir: &OwnedFd, name: &OsStr) -> Step<()> {
        let stat = fstat(dir).map_err(|errno| super::said::cannot(call, errno))?;
        let place = (stat.st_dev, stat.st_ino);
        self.settle(call, |mark| mark.place.as_ref().is_some_and(|(dir, own)| *dir == place && own == name))
    }

    fn settle(&self, call: &ActionCall, is: impl Fn(&&Mark) -> bool) -> Step<()> {
        self.marks.iter().find(is).map_or(Ok(()), |mark| refused(call, mark.own))
    }
}

impl Mark {
    fn of(path: &Path, own: bool) -> Mark {
        let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
        let place = path.parent().and_then(identity).zip(path.file_name().map(OsStr::to_owned));
        Mark { itself: identity(path), place, own }
    }
}

/// What lies directly in a directory of guardexec's own; nothing in what is no directory, or is not there.
fn files_in(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
}

/// Whether files lie there of which nothing is known: it is a directory, or nobody can tell.
fn may_hold_files(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match path.metadata() {
        Ok(found) => found.is_dir(),
        Err(error) => !matches!(error.kind(), NotFound | NotADirectory),
    }
}

fn refused<T>(call: &ActionCall, own: bool) -> Step<T> {
    let path = shown(call);
    if own {
        return Said::refused(
            format!("{path} is one of the files that guardexec's policy leads to, which no action touches"),
            "do without it",
        );
    }
    Said::refused(format!("{path} lies in what [filesystem] deny keeps from everybody"), "do without it")
}
