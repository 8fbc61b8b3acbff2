//! Confinement: everything the kernel is told to enforce on a run, prepared before anything is forked.
//!
//! One file a mechanism. Each has two halves: one that runs in the parent and may think, allocate and fail with
//! a sentence; and one that runs in the child, between `clone` and `exec`, in memory shared with its parent: it
//! only makes system calls on what exists already, and fails as ([`Step`], errno).
//!
//! # The order of the child's steps, and why
//!
//! | step | why here |
//! |---|---|
//! | `session` | first: from here no terminal signal reaches the child, and it has no controlling terminal |
//! | `signals` | before anything that could be interrupted by an inherited handler |
//! | `stdio` | before descriptors are closed; sources lie above 2 so that no copy overwrites another |
//! | `attributes` | umask 022, personality 0: inherited oddities (no ASLR) end here |
//! | `cpus` | before the limits, so that it counts for all that follows |
//! | `limits` | before the identity changes: raising is never needed, lowering needs no privilege |
//! | `identity` | [`Stage::Identity`] hooks: groups, user, capabilities; needs what `no_new_privs` would take |
//! | `parent_death` | after the identity, which clears it (prctl(2)) |
//! | `no_new_privs` | before Landlock and seccomp, which want it from an ordinary user |
//! | `landlock` | [`Stage::Confine`] hooks |
//! | `descriptors` | after Landlock, whose ruleset is a descriptor; marks all above 2 close-on-exec |
//! | `seccomp` | [`Stage::Filter`] hooks: last, since it may refuse any call above |
//! | `readback` | the last hook: the kernel is asked whether what was applied is on |
//! | `program` | a script only: is the path still the file that was judged? |
//! | `exec` | |
//!
//! The working directory is no step: the front process enters it by descriptor before it forks, because a
//! descriptor from another mount namespace would give a directory that `getcwd` cannot name, while a working
//! directory is translated by the kernel when the mount namespace is copied.

pub mod attempt;
pub mod bounds;
pub mod cgroup;
pub mod doctor;
pub mod door;
pub mod enforced;
mod error;
mod foresee;
pub mod identity;
pub mod landlock;
pub mod layers;
pub mod loader;
pub mod mount;
pub mod namespace;
pub mod planted;
pub mod probe;
pub mod raw;
mod readback;
pub mod repositories;
pub mod rlimit;
pub mod seccomp;
pub mod tmp;
#[cfg(test)]
mod together;
pub mod view;

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub use enforced::Enforced;
pub use error::PrepareError;

use crate::decision::{Grant, Wanted};
use crate::policy::model::{EffectiveLimits, TreeKind};
use crate::program::{self, Program, ProgramKind};
use crate::request;
use crate::sys::{self, fd};

/// A named step on the way to a running program; what failed, when nothing ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum Step {
    /// Entering the working directory.
    WorkingDirectory = 1,
    /// Making the keeper process, with its namespaces where it has any.
    Keeper,
    /// Writing the user and group map of a new user namespace.
    IdMap,
    /// Making the mounts private.
    Mounts,
    /// Making the child process.
    Child,
    /// A session of its own.
    Session,
    /// Signal dispositions and mask.
    Signals,
    /// Descriptors 0 to 2.
    Stdio,
    /// umask and personality.
    Attributes,
    /// Processor affinity.
    Cpus,
    /// Resource limits.
    Limits,
    /// User, groups, capabilities.
    Identity,
    /// Death signal.
    ParentDeath,
    /// `no_new_privs`.
    NoNewPrivs,
    /// Landlock.
    Landlock,
    /// Closing descriptors.
    Descriptors,
    /// seccomp.
    Seccomp,
    /// What was applied is seen to be on.
    Readback,
    /// The script's path no longer names the file that was judged.
    Program,
    /// execve(2).
    Exec,
    /// Making the child in a cgroup of its own.
    Cgroup,
    /// Opening the file for standard input with the run's own rights.
    Input,
}

impl Step {
    const ALL: [Step; 22] = [
        Step::WorkingDirectory,
        Step::Keeper,
        Step::IdMap,
        Step::Mounts,
        Step::Child,
        Step::Session,
        Step::Signals,
        Step::Stdio,
        Step::Attributes,
        Step::Cpus,
        Step::Limits,
        Step::Identity,
        Step::ParentDeath,
        Step::NoNewPrivs,
        Step::Landlock,
        Step::Descriptors,
        Step::Seccomp,
        Step::Readback,
        Step::Program,
        Step::Exec,
        Step::Cgroup,
        Step::Input,
    ];

    /// The step with this number, as it travels between processes.
    pub fn from_number(number: i32) -> Option<Step> {
        Step::ALL.into_iter().find(|step| *step as i32 == number)
    }

    /// What was being done, to stand after "could not".
    pub fn as_str(self) -> &'static str {
        match self {
            Step::WorkingDirectory => "enter the working directory",
            Step::Keeper => "make the process that holds the tree",
            Step::IdMap => "write the id map of the user namespace",
            Step::Mounts => "make the mounts private",
            Step::Child => "make the child process",
            Step::Session => "start a session",
            Step::Signals => "reset the signals",
            Step::Stdio => "set up standard input and output",
            Step::Attributes => "reset umask and personality",
            Step::Cpus => "set the processor affinity",
            Step::Limits => "set the resource limits",
            Step::Identity => "change the identity",
            Step::ParentDeath => "set the death signal",
            Step::NoNewPrivs => "set no_new_privs",
            Step::Landlock => "restrict the file system (Landlock)",
            Step::Descriptors => "close the descriptors",
            Step::Seccomp => "install the system call filter (seccomp)",
            Step::Readback => "see that the confinement is on",
            Step::Program => "find the script unchanged",
            Step::Exec => "execute the program",
            Step::Cgroup => "make the child in a cgroup of its own",
            Step::Input => "open the file for standard input with the run's own rights",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where among the child's steps a prepared one is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before `no_new_privs`.
    Identity,
    /// After it.
    Confine,
    /// Last before exec.
    Filter,
}

/// The child's half of a mechanism. `apply` runs between `clone` and `exec` in memory shared with the parent: no
/// allocation, no lock, no panic, no C library function that is more than its system call.
pub trait Apply {
    /// Does it; the error is an errno.
    fn apply(&self) -> Result<(), i32>;
}

impl<F: Fn() -> Result<(), i32>> Apply for F {
    fn apply(&self) -> Result<(), i32> {
        self()
    }
}

/// A mechanism, prepared.
pub struct Prepared {
    /// As which step it fails.
    pub step: Step,
    /// Where it is applied.
    pub stage: Stage,
    /// Descriptors that it needs in the child; numbers above 2, owned by `apply`.
    pub descriptors: Vec<RawFd>,
    /// The child's half.
    pub apply: Box<dyn Apply>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("step", &self.step)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

/// What the child reads. The child never gets guardexec's own terminal or socket.
#[derive(Debug)]
pub enum Input {
    /// `/dev/null`.
    Null,
    /// This file, opened for reading.
    File(OwnedFd),
    /// guardexec's own standard input, copied through a pipe.
    Relay,
    /// These bytes, through a pipe.
    Bytes(Vec<u8>),
}

impl Input {
    /// Opens what a request asks for. A file has to be a regular file, a pipe or a character device that is no
    /// terminal; a FIFO that nobody writes to would read as empty and is refused. What has no path that the run could open for itself has to
    /// be a pipe that guardexec was handed: through `/proc` root could reach into everybody's.
    pub(crate) fn open(asked: request::Stdin) -> Result<Input, PrepareError> {
        Ok(match asked {
            request::Stdin::Null => Input::Null,
            request::Stdin::Relay => Input::Relay,
            request::Stdin::Bytes(bytes) => Input::Bytes(bytes),
            request::Stdin::File(path) => match Input::file(&path) {
                Ok(file) => Input::File(file),
                Err(error) => return Err(PrepareError::Stdin { path, error }),
            },
        })
    }

    fn file(path: &std::path::Path) -> io::Result<OwnedFd> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let file = fd::open(&name, libc::O_RDONLY | libc::O_NOCTTY | libc::O_NONBLOCK)?;
        if fd::kind(file.as_fd())? == fd::FileKind::Other || fd::is_terminal(file.as_fd()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let named = std::fs::read_link(program::descriptor_path(&file))?.is_absolute();
        let handed = || {
            fd::kind(file.as_fd()).is_ok_and(|k| k == fd::FileKind::Pipe) && fd::was_handed_over(file.as_fd())
        };
        if !named && !handed() {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        if named && fd::kind(file.as_fd())? == fd::FileKind::Pipe && !fd::may_be_written_to(file.as_fd())? {
            return Err(io::Error::other("no program has it open for writing yet; start that one first"));
        }
        fd::set_nonblocking(file.as_fd(), false)?;
        fd::above_stdio(file)
    }
}

/// Everything that is enforced on one run. Only [`Confinement::prepare`] makes one, out of a grant.
#[derive(Debug)]
pub struct Confinement {
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
    pub(crate) program: OwnedFd,
    pub(crate) path: CString,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) kind: ProgramKind,
    pub(crate) program_path: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) cwd_fd: OwnedFd,
    pub(crate) input: Input,
    pub(crate) limits: EffectiveLimits,
    pub(crate) tree: TreeKind,
    /// What the policy wanted of the layers; each layer's file reads its part.
    pub(crate) wanted: Wanted,
    /// Files that the policy leads to, which no run may change.
    pub(crate) guarded: Vec<PathBuf>,
    /// The audit files among them: a run that could change them does not start.
    pub(crate) recorded: Vec<PathBuf>,
    /// Kill switches: a run that could make or remove one does not start.
    pub(crate) switches: Vec<PathBuf>,
    /// Files that the policy leads to and that do not exist yet: a run that could make one does not start.
    pub(crate) unmade: Vec<PathBuf>,
    /// The caller's own `TMPDIR`, where nothing else takes a private tmp.
    pub(crate) caller_tmp: Option<PathBuf>,
}

impl Confinement {
    /// Turns a grant into what the kernel is told. `guarded`: files that the policy leads to.
    ///
    /// # Errors
    /// Standard input cannot be opened, a layer that the policy requires cannot be had, or a descriptor is missing.
    pub fn prepare(grant: Grant, guarded: Vec<PathBuf>) -> Result<Confinement, PrepareError> {
        let input = Input::open(grant.stdin)?;
        let Some(Program { path, device, inode, kind, file, .. }) = grant.program else {
            return Err(PrepareError::System(io::Error::other("a built-in action is no command to confine")));
        };
        Ok(Confinement {
            argv: grant.argv,
            envp: grant.envp,
            program: fd::above_stdio(file)?,
            path: CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)?,
            device,
            inode,
            // By its path, as a script, where it cannot be otherwise.
            kind: if raw::can_execute_by_descriptor() { kind } else { ProgramKind::Script },
            program_path: path,
            cwd: grant.cwd,
            cwd_fd: fd::above_stdio(grant.cwd_fd)?,
            input,
            limits: grant.limits,
            tree: grant.wanted.processes,
            wanted: grant.wanted,
            guarded,
            recorded: Vec::new(),
            switches: Vec::new(),
            unmade: Vec::new(),
            caller_tmp: None,
        })
    }

    /// Names the files that record the run.
    #[must_use]
    pub fn recorded_in(mut self, files: Vec<PathBuf>) -> Confinement {
        self.recorded = files;
        self
    }

    /// Names the files that stop runs, whether they exist or not.
    #[must_use]
    pub fn stopped_by(mut self, files: Vec<PathBuf>) -> Confinement {
        self.switches = files;
        self
    }

    /// Names the files that the policy leads to and that do not exist yet.
    #[must_use]
    pub fn without(mut self, files: Vec<PathBuf>) -> Confinement {
        self.unmade = files;
        self
    }

    /// Names the caller's own `TMPDIR`: inside a run of another guardexec it is the only place to write to.
    #[must_use]
    pub fn with_caller_tmp(mut self, dir: Option<PathBuf>) -> Confinement {
        self.caller_tmp = dir.filter(|dir| dir.is_absolute());
        self
    }
}

/// Whether this process may make namespaces without a user namespace.
pub(crate) fn is_root() -> bool {
    sys::process::ids().0 == 0
}
