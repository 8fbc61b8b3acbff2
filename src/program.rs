//! First word to an opened, canonical executable. The descriptor opened here is what is executed.
//!
//! A program is opened once, with `O_PATH`: that needs no read permission and has no side effect on FIFOs or
//! devices. Everything said of it (kind, identity, canonical path) is read from that descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::{FileStat, Mode, SFlag};
use nix::unistd::AccessFlags;
use sha2::{Digest, Sha256};

#[cfg(test)]
mod tests;

/// An opened program. Everything said of it was read from the descriptor, not from its name.
#[derive(Debug)]
pub struct Program {
    /// The canonical path of the file that was opened (links resolved).
    pub path: PathBuf,
    /// Device number (`st_dev`).
    pub device: u64,
    /// Inode number (`st_ino`).
    pub inode: u64,
    /// SHA-256 of the content, lower-case hex; only where something asked for it.
    pub sha256: Option<String>,
    /// How it has to be executed.
    pub kind: ProgramKind,
    /// The open descriptor (`O_PATH` or read-only, close-on-exec).
    pub file: OwnedFd,
}

/// A script has to be executed by its path: the kernel hands its interpreter a name, not a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// Anything that does not start with `#!`.
    Binary,
    /// Starts with `#!`.
    Script,
}

/// Why no program could be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindError {
    /// There is none.
    NotFound,
    /// There is a file, and it cannot be executed.
    NotExecutable {
        /// The file, as it was looked up.
        path: PathBuf,
        /// Why not: `EACCES` for missing permission, `EISDIR` for a directory, `ELOOP`, ...
        errno: Errno,
    },
}

/// Looks a bare name up in `path`, as execvp(3) does: entries that hold no such file, or one that cannot be
/// executed, are passed over. Relative entries never count (they would depend on the working directory).
///
/// # Errors
/// [`FindError::NotExecutable`] with the first file found where none can be executed, else
/// [`FindError::NotFound`].
pub fn find(name: &OsStr, path: &[PathBuf]) -> Result<Program, FindError> {
    if name.is_empty() || name.as_bytes().contains(&b'/') {
        return Err(FindError::NotFound);
    }
    let mut unusable = None;
    for dir in path.iter().filter(|d| d.is_absolute()) {
        match open_absolute(&dir.join(name)) {
            Ok(program) => return Ok(program),
            // execvp passes over directories of that name, and so over what is no regular file.
            Err(FindError::NotFound | FindError::NotExecutable { errno: Errno::EISDIR, .. }) => {}
            Err(refused) => unusable = unusable.or(Some(refused)),
        }
    }
    Err(unusable.unwrap_or(FindError::NotFound))
}

/// Opens the program at an absolute path, following links.
///
/// # Errors
/// [`FindError::NotFound`] where nothing is there (or the path is relative), [`FindError::NotExecutable`] where
/// it is no regular file, may not be executed, or cannot be reached.
pub fn open_absolute(path: &Path) -> Result<Program, FindError> {
    let refused = |errno| FindError::NotExecutable { path: path.to_path_buf(), errno };
    if !path.is_absolute() {
        return Err(FindError::NotFound);
    }
    let (file, direct) = match open_by_path(path, OFlag::empty()) {
        Ok(opened) => opened,
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG) => return Err(FindError::NotFound),
        Err(errno) => return Err(refused(errno)),
    };
    let stat = nix::sys::stat::fstat(&file).map_err(refused)?;
    check_kind(&stat).map_err(refused)?;
    check_executable(&file).map_err(refused)?;
    let canonical =
        if direct { path.to_path_buf() } else { canonical_path(&file, &stat).map_err(refused)? };
    Ok(Program {
        path: canonical,
        device: stat.st_dev,
        inode: stat.st_ino,
        sha256: None,
        kind: kind_of(&file, direct.then_some(path), &stat),
        file,
    })
}

/// SHA-256 of the program's content, lower-case hex. It is read through the open descriptor, so it is the
/// content of what is executed, unless that file is rewritten in place afterwards.
///
/// # Errors
/// What opening or reading the file gives; a program that may be executed but not read has no hash.
pub fn hash(program: &Program) -> std::io::Result<String> {
    let mut file = File::open(descriptor_path(&program.file))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0_u8; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => digest.update(&buffer[..n]),
        }
    }
    Ok(crate::sys::hex(&digest.finalize()))
}

/// The kernel reads this much to tell what a file is (`BINPRM_BUF_SIZE`, 5.1).
pub(crate) const HEAD: usize = 256;

/// The interpreter of a script: the first word after `#!`, as the kernel splits (fs/binfmt_script.c).
pub(crate) fn script_interpreter(head: &[u8]) -> Option<PathBuf> {
    first_line_words(head).next().map(|word| PathBuf::from(OsStr::from_bytes(word)))
}

/// The words of a `#!` line; none where there is no such line.
fn first_line_words(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let line = head.strip_prefix(b"#!").unwrap_or_default();
    let line = line.split(|b| matches!(b, b'\n' | 0)).next().unwrap_or_default();
    line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// The words after `#!` of an opened script; none for a binary and for what cannot be read.
pub fn interpreter_line(program: &Program) -> Vec<OsString> {
    if program.kind != ProgramKind::Script {
        return Vec::new();
    }
    let mut head = Vec::with_capacity(HEAD);
    let read =
        File::open(descriptor_path(&program.file)).and_then(|f| f.take(HEAD as u64).read_to_end(&mut head));
    match read {
        Ok(_) => first_line_words(&head).map(|word| OsStr::from_bytes(word).to_owned()).collect(),
        Err(_) => Vec::new(),
    }
}

/// Whether two opened programs are the same file (device and inode).
pub fn same_file(a: &Program, b: &Program) -> bool {
    (a.device, a.inode) == (b.device, b.inode)
}

/// Where the kernel shows an open descriptor as a link to its file, proc_pid_fd(5).
pub(crate) fn descriptor_path(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

fn check_kind(stat: &FileStat) -> Result<(), Errno> {
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => Ok(()),
        SFlag::S_IFDIR => Err(Errno::EISDIR),
        _ => Err(Errno::EACCES), // as execve(2) answers for FIFOs, devices and sockets
    }
}

/// The kernel's own answer for the effective user; for root it asks for any execute bit, and on a `noexec` mount
/// it is no.
fn check_executable(file: &OwnedFd) -> Result<(), Errno> {
    let asked = |dir: BorrowedFd<'_>, path: &Path, flags| {
        nix::unistd::faccessat(dir, path, AccessFlags::X_OK, AtFlags::AT_EACCESS | flags)
    };
    match asked(file.as_fd(), Path::new(""), AtFlags::AT_EMPTY_PATH) {
        answer @ (Ok(()) | Err(Errno::EACCES)) => answer,
        // Before Linux 5.8 only a path can be asked about.
        Err(_) => asked(AT_FDCWD, &descriptor_path(file), AtFlags::empty()),
    }
}

/// Opens with `O_PATH`, and says whether the path is canonical already: absolute, plain, and without a link in it
/// (openat2(2), Linux 5.6). Then nobody needs to ask `/proc` for it, which costs a run more than the opening.
pub(crate) fn open_by_path(path: &Path, more: OFlag) -> Result<(OwnedFd, bool), Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | more;
    if is_plain(path) {
        let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        match nix::fcntl::openat2(AT_FDCWD, path, how) {
            Ok(file) => return Ok((file, true)),
            Err(errno @ (Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES)) => return Err(errno),
            // A link, or a kernel or a filter without this call.
            Err(_) => {}
        }
    }
    nix::fcntl::open(path, flags, Mode::empty()).map(|file| (file, false))
}

/// Absolute, without `.`, `..`, doubled slashes or one at the end.
fn is_plain(path: &Path) -> bool {
    let Some(rest) = path.as_os_str().as_bytes().strip_prefix(b"/") else { return false };
    rest.split(|&b| b == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

/// The canonical path of an open file. It must still lead to that file: a name that is gone, or now leads
/// elsewhere, could not be put into a result truthfully (and a script could not be run by it).
pub(crate) fn canonical_path(file: &impl AsFd, stat: &FileStat) -> Result<PathBuf, Errno> {
    let path = PathBuf::from(nix::fcntl::readlink(&descriptor_path(file))?);
    let again = nix::sys::stat::stat(&path)?;
    if (again.st_dev, again.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(Errno::ESTALE);
    }
    Ok(path)
}

/// What cannot be read can only be a binary: the interpreter of a script has to read it.
fn kind_of(file: &OwnedFd, path: Option<&Path>, stat: &FileStat) -> ProgramKind {
    let mut start = [0_u8; 2];
    let opened =
        path.and_then(|path| reopen(path, stat)).map_or_else(|| File::open(descriptor_path(file)), Ok);
    let read = opened.and_then(|mut f| f.read_exact(&mut start));
    if read.is_ok() && &start == b"#!" { ProgramKind::Script } else { ProgramKind::Binary }
}

/// The same file for reading, by its canonical path if that still leads there: a fifth of what the way through `/proc`
/// costs. What may stand there now is opened without waiting, and looked at before anything is read.
fn reopen(path: &Path, stat: &FileStat) -> Option<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let file = nix::fcntl::openat2(AT_FDCWD, path, how).ok()?;
    let found = nix::sys::stat::fstat(&file).ok()?;
    ((found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino)).then(|| File::from(file))
}
