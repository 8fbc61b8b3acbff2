//! The `path` limit: a word names something beneath a directory, and the kernel agrees.
//!
//! openat2(2) with `RESOLVE_BENEATH` resolves the word as the program will, without ever leaving the directory. What
//! stays: between this look and the program's own open the tree can change (confinement holds then, not this
//! limit), and a hard link is the file itself wherever its other names lie.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::{Mode, SFlag};

use crate::decision::shown::repr;
use crate::policy::value::{PathKind, PathLimit};
use crate::program::canonical_path;

/// What a path can be judged with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Paths<'a> {
    /// The real file system, seen from this canonical working directory.
    Disk(&'a Path),
    /// The names alone, as in `examples`: nothing is opened, and relative words are taken to start at the limit's
    /// own directory.
    Names,
}

/// How often a lookup that the kernel could not finish safely (`EAGAIN`, a concurrent rename) is tried.
const TRIES: usize = 8;

/// As many links as the kernel follows in one lookup (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// How `word` fails the limit, as the end of a sentence that starts with the value; `None` if it passes.
pub(super) fn failure(limit: &PathLimit, word: &[u8], paths: &Paths<'_>) -> Option<String> {
    let path = Path::new(std::ffi::OsStr::from_bytes(word));
    let outside = || Some(format!("does not lie under {}", shown(&limit.under)));
    if word.is_empty() {
        return Some("is empty and names no path".into());
    }
    match paths {
        Paths::Names => {
            let full = if path.is_absolute() { path.to_path_buf() } else { limit.under.join(path) };
            if below(&lexical(&full), &limit.under) { None } else { outside() }
        }
        Paths::Disk(cwd) => match open_under(&limit.under) {
            Err(errno) => Some(format!("cannot be judged: {} ({})", shown(&limit.under), errno.desc())),
            Ok((under, canonical)) => match beneath(path, cwd, &[&limit.under, &canonical]) {
                None => outside(),
                Some(rest) => resolve(limit, &under, &rest),
            },
        },
    }
}

/// Whether `word` may name something under the limit's directory, by its letters or by what it leads to.
pub(super) fn may_lie_under(limit: &PathLimit, word: &[u8], paths: &Paths<'_>) -> bool {
    let path = Path::new(std::ffi::OsStr::from_bytes(word));
    let Paths::Disk(cwd) = paths else {
        return below(&lexical(path), &limit.under);
    };
    let full = cwd.join(path);
    let real_under = crate::sys::canonical(&limit.under);
    let under = |p: &Path| below(p, &limit.under) || real_under.as_ref().is_ok_and(|u| below(p, u));
    let found = under(&lexical(&full)) || nearest(&full, MAX_LINKS).is_some_and(|real| under(&real));
    found && !certainly_another_kind(limit.kind, &full)
}

fn certainly_another_kind(kind: Option<PathKind>, full: &Path) -> bool {
    match (kind, std::fs::metadata(full)) {
        (Some(PathKind::File), Ok(meta)) => meta.is_dir(),
        (Some(PathKind::Dir), Ok(meta)) => meta.is_file(),
        _ => false,
    }
}

/// What `full` leads to; where its end does not exist, what the part that does leads to and the rest behind it,
/// through links into the void as well.
fn nearest(full: &Path, links: usize) -> Option<PathBuf> {
    let (real, rest) = full
        .ancestors()
        .find_map(|part| Some((crate::sys::canonical(part).ok()?, full.strip_prefix(part).ok()?)))?;
    let mut parts = rest.components();
    let Some(next) = parts.next() else { return Some(real) };
    match std::fs::read_link(real.join(next)) {
        Ok(target) if links > 0 => nearest(&real.join(target).join(parts.as_path()), links - 1),
        _ => Some(lexical(&real.join(rest))),
    }
}

fn open_under(under: &Path) -> Result<(OwnedFd, PathBuf), Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let dir = nix::fcntl::open(under, flags, Mode::empty())?;
    let canonical = canonical_path(&dir, &nix::sys::stat::fstat(&dir)?)?;
    Ok((dir, canonical))
}

/// The word relative to one of `roots`. Steps upwards at its start are taken from the canonical working directory,
/// where a letter-by-letter step is the true one; later ones are left to the kernel.
fn beneath(word: &Path, cwd: &Path, roots: &[&Path]) -> Option<PathBuf> {
    let full = if word.is_absolute() {
        word.to_path_buf()
    } else {
        let mut base = cwd.to_path_buf();
        let mut rest = word.components().peekable();
        while let Some(Component::ParentDir | Component::CurDir) = rest.peek() {
            if rest.next() == Some(Component::ParentDir) {
                base.pop();
            }
        }
        base.join(rest.collect::<PathBuf>())
    };
    roots.iter().find_map(|root| full.strip_prefix(root).ok().map(Path::to_path_buf))
}

fn resolve(limit: &PathLimit, under: &OwnedFd, rest: &Path) -> Option<String> {
    match open_beneath(limit, under, rest, OFlag::empty()) {
        Ok(file) => wrong_kind(limit, &file),
        Err(Errno::ENOENT) => missing(limit, under, rest),
        Err(Errno::EXDEV) => Some(format!("leaves {}", shown(&limit.under))),
        Err(Errno::ELOOP) => Some("leads over a symbolic link".into()),
        Err(errno) => Some(format!("cannot be resolved under {} ({})", shown(&limit.under), errno.desc())),
    }
}

fn open_beneath(limit: &PathLimit, under: &OwnedFd, rest: &Path, more: OFlag) -> Result<OwnedFd, Errno> {
    let mut flags = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    if !limit.symlinks {
        flags |= ResolveFlag::RESOLVE_NO_SYMLINKS;
    }
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC | more).resolve(flags);
    let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
    let mut answer = Err(Errno::EAGAIN);
    for _ in 0..TRIES {
        answer = nix::fcntl::openat2(under, rest, how);
        if answer.as_ref().err() != Some(&Errno::EAGAIN) {
            break;
        }
    }
    answer
}

fn wrong_kind(limit: &PathLimit, file: &OwnedFd) -> Option<String> {
    let Ok(stat) = nix::sys::stat::fstat(file) else {
        return Some("cannot be examined".into());
    };
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    match limit.kind {
        Some(PathKind::File) if kind != SFlag::S_IFREG => Some("is not a regular file".into()),
        Some(PathKind::Dir) if kind != SFlag::S_IFDIR => Some("is not a directory".into()),
        _ => None,
    }
}

/// A last component that does not exist is fine where no kind is asked for: its directory must resolve, and the
/// name must not be a link into the void, through which the program would create something elsewhere.
fn missing(limit: &PathLimit, under: &OwnedFd, rest: &Path) -> Option<String> {
    if limit.kind.is_some() {
        return Some("does not exist".into());
    }
    let (Some(parent), Some(_)) = (rest.parent(), rest.file_name()) else {
        return Some("does not exist".into());
    };
    if open_beneath(limit, under, parent, OFlag::O_DIRECTORY).is_err() {
        return Some("lies in a directory that does not exist".into());
    }
    match open_beneath(limit, under, rest, OFlag::O_NOFOLLOW) {
        Err(Errno::ENOENT) => None,
        _ => Some("is a symbolic link that leads nowhere".into()),
    }
}

/// Steps taken letter by letter: `..` removes the component before it and never leaves `/`.
pub(super) fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out.parent().is_some() && out.file_name().is_some() => {
                out.pop();
            }
            Component::ParentDir if out.has_root() => {}
            other => out.push(other),
        }
    }
    out
}

fn below(path: &Path, root: &Path) -> bool {
    path.starts_with(root)
}

fn shown(path: &Path) -> String {
    repr(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests;
