//! The content of files: what an approval binds to besides words.
//!
//! A word is taken for a path as it stands, behind its first `=`, behind the two bytes of a short flag, and each of
//! these also behind an `@`. Binding a file that the program would not read does no harm; missing one would. Links are
//! followed, but not the magic ones of `/proc`, which lead to guardexec's own files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::{Mode, SFlag};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::bytes::Bytes;
use super::refusal::{unbindable, unbindable_file};
use crate::decision::Denial;
use crate::hook;
use crate::program::{self, Program, descriptor_path};
use crate::request::quote;
use crate::sys::hex;

#[cfg(test)]
mod tests;

/// The largest file that is bound, in bytes.
pub const MOST_OF_ONE: u64 = 256 << 20;
/// The most that is read for one request, in bytes.
pub const MOST_OF_ALL: u64 = 1 << 30;
/// The most files and directories of one request.
pub const MOST_NAMES: usize = 4096;

/// What a file held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    pub sha256: String,
}

/// A word, or a part of one, that names something; or what interprets the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Which word of the command. 0, the program, stands for what interprets it; a built-in action's file is 1.
    pub word: usize,
    /// The path as it stands in the word.
    pub path: Bytes,
    /// What a regular file held; `None` for a directory, whose content is not bound.
    pub content: Option<Content>,
}

/// What is there under a name.
enum Found {
    File(OwnedFd, (u64, u64)),
    Directory,
    Nothing,
}

/// SHA-256 of these bytes.
pub fn content(bytes: &[u8]) -> Content {
    Content { size: bytes.len() as u64, sha256: hex(&Sha256::digest(bytes)) }
}

/// What the words after the program name, relative to the working directory.
///
/// # Errors
/// A file that cannot be read, or is too large, or too many of them: such a request cannot be approved.
pub fn named<W: AsRef<[u8]>>(cwd: BorrowedFd<'_>, argv: &[W]) -> Result<Vec<Named>, Box<Denial>> {
    let mut reading = Reading { left: MOST_OF_ALL, seen: BTreeMap::new() };
    let mut names = Vec::new();
    for (word, text) in argv.iter().enumerate().skip(1) {
        for path in spellings(text.as_ref()) {
            let content = match look(cwd, path) {
                Ok(Found::Nothing) => continue,
                Ok(Found::Directory) => None,
                Ok(Found::File(file, identity)) => Some(reading.content(path, &file, identity)?),
                Err(errno) => return Err(unbindable_file(path, errno.desc())),
            };
            if names.len() == MOST_NAMES {
                return Err(unbindable(format!("its words name more than {MOST_NAMES} files")));
            }
            names.push(Named { word, path: path.into(), content });
        }
    }
    Ok(names)
}

/// What interprets a script, link by link, and what `env` looks up in `path` for it: whoever can change one of these decides
/// what runs.
///
/// # Errors
/// One of them cannot be read or is too large.
pub fn interpreters(program: &Program, path: &[PathBuf]) -> Result<Vec<Named>, Box<Denial>> {
    let mut all = Vec::new();
    let mut words = program::interpreter_line(program);
    for _ in 0..hook::INTERPRETERS {
        let Some(first) = words.first().map(PathBuf::from) else { break };
        // Where it is not there, the start fails by itself.
        let Ok(found) = program::open_absolute(&first) else { break };
        all.push(interpreter(&first)?);
        if first.file_name() == Some(OsStr::new("env"))
            && let Some(name) = hook::started_by_env(&words[1..])
            && let Ok(started) =
                program::find(name, path).or_else(|_| program::open_absolute(Path::new(name)))
        {
            all.push(interpreter(&started.path)?);
        }
        words = program::interpreter_line(&found);
    }
    Ok(all)
}

fn interpreter(path: &Path) -> Result<Named, Box<Denial>> {
    Ok(Named { word: 0, path: path.as_os_str().as_bytes().into(), content: Some(content_of(path)?) })
}

/// What the regular file at a path holds; relative paths count from where guardexec was started.
///
/// # Errors
/// It cannot be opened and read, is no regular file, or is too large.
pub fn content_of(path: &Path) -> Result<Content, Box<Denial>> {
    let shown = path.as_os_str().as_bytes();
    match look(nix::fcntl::AT_FDCWD, shown) {
        Ok(Found::File(file, identity)) => {
            Reading { left: MOST_OF_ALL, seen: BTreeMap::new() }.content(shown, &file, identity)
        }
        Ok(Found::Directory) => Err(unbindable_file(shown, "it is a directory")),
        Ok(Found::Nothing) => Err(unbindable_file(shown, "there is no such regular file")),
        Err(errno) => Err(unbindable_file(shown, errno.desc())),
    }
}

/// The parts of a word that can be a path, the longest first.
fn spellings(word: &[u8]) -> Vec<&[u8]> {
    let behind = word.iter().position(|b| *b == b'=').map(|at| &word[at + 1..]);
    let glued = word.strip_prefix(b"-").filter(|rest| !rest.starts_with(b"-")).and_then(|rest| rest.get(1..));
    let mut all: Vec<&[u8]> = Vec::new();
    for part in [Some(word), glued, behind].into_iter().flatten() {
        for part in [Some(part), part.strip_prefix(b"@")].into_iter().flatten() {
            if !part.is_empty() && !all.contains(&part) {
                all.push(part);
            }
        }
    }
    all
}

/// Looks without opening for reading: that has no side effect on FIFOs and devices.
fn look(from: BorrowedFd<'_>, path: &[u8]) -> Result<Found, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let path = OsStr::from_bytes(path);
    let opened = match nix::fcntl::openat2(from, path, how) {
        // Before Linux 5.6, or under a filter that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => nix::fcntl::openat(from, path, flags, Mode::empty()),
        other => other,
    };
    let file = match opened {
        Ok(file) => file,
        // What cannot be reached by guardexec cannot be reached by the run, which has no more rights.
        Err(
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ENAMETOOLONG
            | Errno::ELOOP
            | Errno::EACCES
            | Errno::EINVAL
            | Errno::ENXIO,
        ) => return Ok(Found::Nothing),
        Err(errno) => return Err(errno),
    };
    let stat = nix::sys::stat::fstat(&file)?;
    Ok(match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => Found::File(file, (stat.st_dev, stat.st_ino)),
        SFlag::S_IFDIR => Found::Directory,
        _ => Found::Nothing,
    })
}

/// Reading many files within one bound; a file that many words name is read once.
struct Reading {
    left: u64,
    seen: BTreeMap<(u64, u64), Content>,
}

impl Reading {
    fn content(&mut self, path: &[u8], file: &OwnedFd, identity: (u64, u64)) -> Result<Content, Box<Denial>> {
        if let Some(content) = self.seen.get(&identity) {
            return Ok(content.clone());
        }
        let most = MOST_OF_ONE.min(self.left);
        let reopened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(descriptor_path(file));
        let content = reopened
            .and_then(|file| read(file, most))
            .map_err(|error| unbindable_file(path, &quote::escape_text(&reason(&error))))?;
        let Some(content) = content else {
            let most = if most < MOST_OF_ONE {
                "with the others it is more than 1 GiB"
            } else {
                "it is larger than 256 MiB"
            };
            return Err(unbindable_file(path, most));
        };
        self.left -= content.size;
        self.seen.insert(identity, content.clone());
        Ok(content)
    }
}

/// Hashes up to `most` bytes; `None` where there are more.
fn read(mut file: File, most: u64) -> io::Result<Option<Content>> {
    if file.metadata()?.len() > most {
        return Ok(None);
    }
    let (mut digest, mut size) = (Sha256::new(), 0_u64);
    let mut buffer = vec![0_u8; 64 << 10];
    loop {
        let n = match file.read(&mut buffer) {
            Ok(0) => return Ok(Some(Content { size, sha256: hex(&digest.finalize()) })),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        size += n as u64;
        // A file that grows while it is read does not hold this up for ever.
        if size > most {
            return Ok(None);
        }
        digest.update(&buffer[..n]);
    }
}

/// The system's sentence without Rust's `(os error N)`.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}
