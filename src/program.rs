//! First word to an opened, canonical executable. The descriptor opened here is what is executed.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

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
