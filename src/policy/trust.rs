//! Could someone else have written this file? Tested on the open descriptor, and on every directory that leads
//! to it, because whoever can write a directory can put another file in the place of the one that was tested.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use super::error::printable;

/// Group or others may write (`S_IWGRP | S_IWOTH`, inode(7)).
const WRITABLE: u32 = 0o022;
/// Only an entry's owner may rename or delete it (`S_ISVTX`, inode(7)).
const STICKY: u32 = 0o1000;
/// How many links the kernel follows (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Why a file is not trusted.
#[derive(Debug)]
pub struct TrustError {
    /// The file or directory in question.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a file or a directory on the way to it.
#[derive(Debug)]
pub enum Problem {
    /// Group or others may write it; its permission bits.
    WritableByOthers(u32),
    /// It belongs to this user, who is neither root nor the user who runs guardexec.
    ForeignOwner(u32),
    /// It could not be looked at.
    Io(io::Error),
    /// More links than the kernel follows.
    TooManyLinks,
}

impl TrustError {
    /// What the user can do about it, if anything simple helps.
    pub fn remedy(&self) -> Option<String> {
        let path = printable(&self.path.to_string_lossy());
        match self.problem {
            Problem::WritableByOthers(_) => Some(format!("chmod go-w {path}")),
            Problem::ForeignOwner(_) => Some(format!("chown root {path}")),
            Problem::Io(_) | Problem::TooManyLinks => None,
        }
    }
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = printable(&self.path.to_string_lossy());
        match &self.problem {
            Problem::WritableByOthers(mode) => {
                write!(f, "`{path}` can be changed by its group or by others (mode {mode:04o})")
            }
            Problem::ForeignOwner(uid) => {
                write!(
                    f,
                    "`{path}` belongs to user {uid}, who is neither root nor the one who runs guardexec"
                )
            }
            Problem::Io(error) => write!(f, "`{path}` cannot be looked at: {error}"),
            Problem::TooManyLinks => write!(f, "`{path}` goes through more than {MAX_LINKS} links"),
        }
    }
}

impl std::error::Error for TrustError {}

/// Tests an open file or directory: owned by root or by `uid` (the effective user), not writable by group or
/// others. `what` is the path to show.
///
/// # Errors
/// What is wrong, or that the descriptor could not be looked at.
pub fn check(fd: impl AsFd, what: &Path, uid: u32) -> Result<(), TrustError> {
    owned(fd, what, [0, uid, uid])
}

/// As [`check`], of what was already found of an open file.
///
/// # Errors
/// What is wrong.
pub fn check_found(meta: &fs::Metadata, what: &Path, uid: u32) -> Result<(), TrustError> {
    belongs((meta.uid(), meta.mode()), what, [0, uid, uid])
}

/// As [`check`], for a file that the system may have installed: it may belong to the owner of `/` too, for the reason
/// that [`check_way`] has.
///
/// # Errors
/// As [`check`].
pub fn check_installed(fd: impl AsFd, what: &Path, uid: u32) -> Result<(), TrustError> {
    owned(fd, what, [0, uid, look(Path::new("/"))?.uid()])
}

fn owned(fd: impl AsFd, what: &Path, trusted: [u32; 3]) -> Result<(), TrustError> {
    let stat = nix::sys::stat::fstat(fd)
        .map_err(|e| TrustError { path: what.to_owned(), problem: Problem::Io(e.into()) })?;
    belongs((stat.st_uid, stat.st_mode), what, trusted)
}

fn belongs((uid, mode): (u32, u32), what: &Path, trusted: [u32; 3]) -> Result<(), TrustError> {
    let wrong = |problem| Err(TrustError { path: what.to_owned(), problem });
    if !trusted.contains(&uid) {
        return wrong(Problem::ForeignOwner(uid));
    }
    if mode & WRITABLE != 0 {
        return wrong(Problem::WritableByOthers(mode & 0o7777));
    }
    Ok(())
}

/// Tests every directory and link on the way to `path`, and gives its canonical path. A directory that others
/// may write passes only if it is sticky and root's or the user's own, as `/tmp` is. The last component is only
/// resolved: test it with [`check`] on its descriptor.
///
/// # Errors
/// The first directory or link that others could change, or that could not be looked at.
pub fn check_way(path: &Path, uid: u32) -> Result<PathBuf, TrustError> {
    let fail = |path: &Path, problem| TrustError { path: path.to_owned(), problem };
    let whole = std::path::absolute(path).map_err(|e| fail(path, Problem::Io(e)))?;
    let mut at = PathBuf::from("/");
    let mut todo: VecDeque<OsString> = parts(&whole).collect();
    let mut links = 0;
    let root = look(&at)?;
    // Whoever owns `/` can put anything in the place of everything. In a user namespace that leaves the host's
    // root unmapped, this is how the host's root looks (user_namespaces(7), overflow uid).
    let trusted = [0, uid, root.uid()];
    directory(&at, &root, trusted)?;
    while let Some(part) = todo.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let meta = look(&next)?;
        if meta.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(fail(path, Problem::TooManyLinks));
            }
            owner(&next, &meta, trusted)?;
            let target = fs::read_link(&next).map_err(|e| fail(&next, Problem::Io(e)))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                todo.push_front(part);
            }
            continue;
        }
        if !todo.is_empty() {
            directory(&next, &meta, trusted)?;
        }
        at = next;
    }
    Ok(at)
}

/// Tests every directory and link on the way to the directory `path`, and the directory itself, by the same rule.
///
/// # Errors
/// As [`check_way`].
pub fn check_directory(path: &Path, uid: u32) -> Result<(), TrustError> {
    let at = check_way(path, uid)?;
    directory(&at, &look(&at)?, [0, uid, look(Path::new("/"))?.uid()])
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|c| match c {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn look(path: &Path) -> Result<fs::Metadata, TrustError> {
    fs::symlink_metadata(path).map_err(|e| TrustError { path: path.to_owned(), problem: Problem::Io(e) })
}

/// `trusted` are the owners who may have made a directory or a link on the way.
fn directory(path: &Path, meta: &fs::Metadata, trusted: [u32; 3]) -> Result<(), TrustError> {
    owner(path, meta, trusted)?;
    if meta.mode() & WRITABLE != 0 && meta.mode() & STICKY == 0 {
        let problem = Problem::WritableByOthers(meta.mode() & 0o7777);
        return Err(TrustError { path: path.to_owned(), problem });
    }
    Ok(())
}

fn owner(path: &Path, meta: &fs::Metadata, trusted: [u32; 3]) -> Result<(), TrustError> {
    if trusted.contains(&meta.uid()) {
        return Ok(());
    }
    Err(TrustError { path: path.to_owned(), problem: Problem::ForeignOwner(meta.uid()) })
}

/// What a file is when it is not a regular one, for messages.
pub(crate) fn file_kind(meta: &fs::Metadata) -> &'static str {
    let kind = meta.file_type();
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        "no regular file"
    }
}
