//! The way from the root to what an action is about, one directory after the other, each by descriptor. No step follows
//! a link, and none leaves the directory that it starts from (openat2(2)), so nobody who moves things about meanwhile
//! can lead it anywhere else.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, SFlag, fstat};

use super::protected;
use super::said::{Said, Step, cannot, shown};
use super::shield::Shield;
use crate::decision::ActionCall;
use crate::policy::model::ActionKind;
use crate::request::quote::repr;

/// Where an action is about to take place.
#[derive(Debug)]
pub(super) struct Beneath<'a> {
    /// What is to be done.
    pub call: &'a ActionCall,
    /// The directory that holds the last name, opened (`O_PATH`); of the root itself the root.
    pub dir: OwnedFd,
    /// The last name; `None` for the root itself.
    pub name: Option<&'a OsStr>,
    shield: &'a Shield,
}

/// What a name leads to.
#[derive(Debug)]
pub(super) struct Target {
    /// Opened with `O_PATH`: nothing has happened to it yet.
    pub file: OwnedFd,
    /// What it is.
    pub stat: FileStat,
}

impl Target {
    pub(super) fn kind(&self) -> SFlag {
        SFlag::from_bits_truncate(self.stat.st_mode) & SFlag::S_IFMT
    }
}

impl<'a> Beneath<'a> {
    /// Goes to the directory that holds the last name of the path.
    pub(super) fn new(
        root: &OwnedFd,
        root_path: &Path,
        call: &'a ActionCall,
        shield: &'a Shield,
    ) -> Step<Beneath<'a>> {
        let changes = matches!(call.kind, ActionKind::WriteFile | ActionKind::DeleteFile);
        let names: Vec<&OsStr> = call.path.iter().collect();
        if changes && protected::by_name(&names) {
            return protected::refused(call);
        }
        let mut dir = open(root, OsStr::new("."), OFlag::O_DIRECTORY).map_err(|e| cannot_go(call, &[], e))?;
        shield.passes(call, &dir)?;
        let mut so_far = root_path.to_path_buf();
        let above = names.split_last().map_or(&[][..], |(_, above)| above);
        for (index, name) in above.iter().enumerate() {
            if changes && protected::is_repository(&dir, None) {
                return protected::refused(call);
            }
            dir = open(&dir, name, OFlag::O_DIRECTORY).map_err(|e| cannot_go(call, &names[..=index], e))?;
            shield.passes(call, &dir)?;
            so_far.push(name);
        }
        let last = names.last().copied();
        if changes && (protected::is_repository(&dir, last) || protected::by_settings(&so_far, &names)) {
            return protected::refused(call);
        }
        Ok(Beneath { call, dir, name: last, shield })
    }

    /// What the last name leads to, opened without any effect on it; `None` where there is nothing.
    pub(super) fn target(&self) -> Step<Option<Target>> {
        let name = self.name.unwrap_or(OsStr::new("."));
        self.shield.passes_name(self.call, &self.dir, name)?;
        let file = match open(&self.dir, name, OFlag::empty()) {
            Ok(file) => file,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(cannot_go(self.call, &[], errno)),
        };
        let stat = fstat(&file).map_err(|errno| cannot(self.call, errno))?;
        self.shield.passes_file(self.call, &stat)?;
        Ok(Some(Target { file, stat }))
    }

    /// The regular file that the last name leads to.
    pub(super) fn file(&self) -> Step<Target> {
        match self.target()? {
            None => Said::failed(format!("{} does not exist", shown(self.call))),
            Some(target) => regular(self.call, target),
        }
    }
}

/// Refuses everything but a regular file.
pub(super) fn regular(call: &ActionCall, target: Target) -> Step<Target> {
    match target.kind() {
        SFlag::S_IFREG => Ok(target),
        SFlag::S_IFDIR => Said::failed(format!("{} is a directory", shown(call))),
        _ => Said::refused(
            format!("{} is no regular file, and actions touch no other", shown(call)),
            "name a regular file",
        ),
    }
}

/// Opens a name in a directory, with `O_PATH`: that has no effect on FIFOs or devices.
fn open(dir: &OwnedFd, name: &OsStr, more: OFlag) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC | more).resolve(resolve);
    openat2(dir, name, how)
}

/// Why there is no way on at the last of `names`, or at the end of the path.
fn cannot_go(call: &ActionCall, names: &[&OsStr], errno: Errno) -> Said {
    let at: PathBuf = names.iter().collect();
    let at = if names.is_empty() { shown(call) } else { repr(at.as_os_str().as_bytes()) };
    match errno {
        Errno::ENOSYS | Errno::EPERM => {
            Said::Broken(format!("built-in actions need openat2 (Linux 5.6): {}", errno.desc()))
        }
        Errno::ENOENT => Said::Failed(format!("{at} does not exist")),
        Errno::ENOTDIR => Said::Failed(format!("{at} is not a directory")),
        Errno::ELOOP | Errno::EXDEV => {
            let message = format!("{at} is a symbolic link, which no action follows");
            Said::refused::<()>(message, "name the file itself, beneath the tool's directory")
                .expect_err("a refusal")
        }
        errno => cannot(call, errno),
    }
}
