//! The child, between `clone` and `exec`: walks a table of named steps over what was prepared.
//!
//! It shares all memory with the keeper, which sleeps until the exec (`CLONE_VM | CLONE_VFORK`). So nothing here
//! allocates, locks, panics or calls a C library function that is more than its system call (musl's
//! `setresuid` and its like signal other threads; glibc's `sigaction` hides two signals). A failure is a pair of
//! numbers in shared memory; the sentence is made by the front process.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::program::ProgramKind;
use crate::sandbox::layers::Layers;
use crate::sandbox::rlimit::Rlimit;
use crate::sandbox::{Confinement, Prepared, Stage, Step};
use crate::sys::process::Pid;
use crate::sys::signal::Signals;

/// Everything the child needs, composed.
pub struct Plan<'a> {
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    program: RawFd,
    /// What exec is given for a path: the script's, or the empty one beside the descriptor. It may lie at an address
    /// that the system call filter alone lets through.
    exec_path: *const c_char,
    path: &'a CStr,
    device: u64,
    inode: u64,
    kind: ProgramKind,
    steps: &'a [Prepared],
    /// What becomes descriptors 0, 1 and 2; numbers above 2.
    pub stdio: [RawFd; 3],
    /// Resource limits.
    pub rlimits: Vec<Rlimit>,
    /// Processors, where they are restricted.
    pub cpus: Option<libc::cpu_set_t>,
    /// The keeper, as the child sees its parent.
    pub keeper: Pid,
    /// Signals that the keeper ignores.
    pub ignored: Signals,
    failed_step: AtomicI32,
    failed_errno: AtomicI32,
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

impl<'a> Plan<'a> {
    /// Composes the plan; the pointers in it live as long as the confinement is borrowed.
    pub fn new(
        c: &'a Confinement,
        layers: &'a Layers,
        stdio: [RawFd; 3],
        rlimits: Vec<Rlimit>,
        cpus: Option<Vec<usize>>,
    ) -> Plan<'a> {
        Plan {
            argv: pointers(&c.argv),
            envp: pointers(&layers.envp),
            program: c.program.as_raw_fd(),
            exec_path: match (&layers.secret, c.kind) {
                (Some(secret), _) => secret.as_ptr(),
                (None, ProgramKind::Binary) => c"".as_ptr(),
                (None, ProgramKind::Script) => c.path.as_ptr(),
            },
            path: &c.path,
            device: c.device,
            inode: c.inode,
            kind: c.kind,
            steps: &layers.steps,
            stdio,
            rlimits,
            cpus: cpus.map(|list| cpu_set(&list)),
            keeper: 0,
            ignored: Signals(u64::MAX),
            failed_step: AtomicI32::new(0),
            failed_errno: AtomicI32::new(0),
        }
    }

    /// The descriptors that have to reach the child.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let hooks = self.steps.iter().flat_map(|s| s.descriptors.iter().copied());
        self.stdio.into_iter().chain([self.program]).chain(hooks).collect()
    }

    /// After the clone returned: the step that failed, if the program was not started.
    pub fn failure(&self) -> Option<(i32, i32)> {
        let step = self.failed_step.load(Ordering::Acquire);
        (step != 0).then(|| (step, self.failed_errno.load(Ordering::Acquire)))
    }
}

fn cpu_set(list: &[usize]) -> libc::cpu_set_t {
    // SAFETY: an all-zero cpu_set_t is a valid empty set; CPU_SET checks nothing but the numbers come from
    // sched_getaffinity(2) and are below CPU_SETSIZE.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in list.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    }
}

type Action = fn(&Plan<'_>) -> Result<(), i32>;

/// The steps, in order; why this order: see the documentation of `sandbox`.
const STEPS: [(Step, Action); 13] = [
    (Step::Session, session),
    (Step::Signals, signals),
    (Step::Stdio, stdio),
    (Step::Attributes, attributes),
    (Step::Cpus, cpus),
    (Step::Limits, limits),
    (Step::Identity, |plan| hooks(plan, Stage::Identity)),
    (Step::ParentDeath, parent_death),
    (Step::NoNewPrivs, no_new_privs),
    (Step::Landlock, |plan| hooks(plan, Stage::Confine)),
    (Step::Descriptors, descriptors),
    (Step::Seccomp, |plan| hooks(plan, Stage::Filter)),
    (Step::Exec, exec),
];

/// Walks the steps. Returns only when one failed, which is then noted in the plan.
pub fn walk(plan: &Plan<'_>) {
    for (step, action) in STEPS {
        if let Err(errno) = action(plan) {
            plan.failed_errno.store(errno, Ordering::Release);
            // A finer step may stand there already (a hook, a changed script).
            let _ = plan.failed_step.compare_exchange(0, step as i32, Ordering::AcqRel, Ordering::Acquire);
            return;
        }
    }
}

/// The errno of the calling "thread": the child has the keeper's, which sleeps.
fn errno() -> i32 {
    // SAFETY: the C library's errno location is always valid for the running thread.
    unsafe { *libc::__errno_location() }
}

fn done(ret: libc::c_long) -> Result<(), i32> {
    if ret == -1 { Err(errno()) } else { Ok(()) }
}

fn session(_: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes nothing.
    done(unsafe { libc::syscall(libc::SYS_setsid) })
}

/// Everything goes back to its default: the exec does that but for what is ignored, SIGPIPE by Rust's runtime and whatever
/// the caller ignores.
fn signals(plan: &Plan<'_>) -> Result<(), i32> {
    // The kernel's own structure, at most 32 bytes on every architecture; all zero is SIG_DFL.
    let default = [0u64; 8];
    let none = std::ptr::null::<u64>();
    for signal in 1..=64 {
        if plan.ignored.has(signal) && signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: the kernel reads one sigaction, which is shorter than the array, and writes nothing.
            done(unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, 8) })?;
        }
    }
    // SAFETY: the kernel reads a mask of 8 bytes, all clear, and writes nothing.
    done(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, default.as_ptr(), none, 8) })
}

fn stdio(plan: &Plan<'_>) -> Result<(), i32> {
    for (to, from) in plan.stdio.into_iter().enumerate() {
        // SAFETY: takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_dup3, from, to, 0) })?;
    }
    Ok(())
}

fn attributes(_: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: both take numbers only; umask(2) cannot fail.
    unsafe {
        libc::syscall(libc::SYS_umask, 0o022);
        done(libc::syscall(libc::SYS_personality, 0))
    }
}

fn cpus(plan: &Plan<'_>) -> Result<(), i32> {
    let Some(set) = &plan.cpus else { return Ok(()) };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the kernel reads `size` bytes of a live set.
    done(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size, set as *const libc::cpu_set_t) })
}

fn limits(plan: &Plan<'_>) -> Result<(), i32> {
    let none = std::ptr::null::<u64>();
    for limit in &plan.rlimits {
        let pair = [limit.soft, limit.hard];
        // SAFETY: the kernel reads two 64-bit numbers and writes nothing.
        done(unsafe { libc::syscall(libc::SYS_prlimit64, 0, limit.resource, pair.as_ptr(), none) })?;
    }
    Ok(())
}

fn hooks(plan: &Plan<'_>, stage: Stage) -> Result<(), i32> {
    for step in plan.steps.iter().filter(|step| step.stage == stage) {
        if let Err(errno) = step.apply.apply() {
            plan.failed_step.store(step.step as i32, Ordering::Release);
            return Err(errno);
        }
    }
    Ok(())
}

fn parent_death(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes numbers only.
    done(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })?;
    // SAFETY: takes nothing. A keeper that died before the line above would never be noticed.
    let parent = unsafe { libc::syscall(libc::SYS_getppid) };
    if parent == libc::c_long::from(plan.keeper) { Ok(()) } else { Err(libc::ECHILD) }
}

/// Always, under every profile: an ordinary user's guard could not kill a set-user-id process.
fn no_new_privs(_: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes numbers only.
    done(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

fn descriptors(_: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes numbers only (Linux 5.11).
    if unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } == 0 {
        return Ok(());
    }
    for fd in 3..65_536 {
        // SAFETY: takes numbers only; a number that is not open is an error return.
        unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// A binary runs by the descriptor that was judged. A script runs by its path, since its interpreter gets a name;
/// that the path still names the judged file is looked at just before. `ENOEXEC` is an answer, never a shell.
fn exec(plan: &Plan<'_>) -> Result<(), i32> {
    let (argv, envp) = (plan.argv.as_ptr(), plan.envp.as_ptr());
    match plan.kind {
        ProgramKind::Binary => {
            let (fd, empty) = (plan.program, plan.exec_path);
            // SAFETY: argv and envp are null-terminated arrays of NUL-terminated strings that the confinement
            // owns; execveat(2) returns only on failure.
            done(unsafe { libc::syscall(libc::SYS_execveat, fd, empty, argv, envp, libc::AT_EMPTY_PATH) })
        }
        ProgramKind::Script => {
            if let Err(errno) = unchanged(plan) {
                plan.failed_step.store(Step::Program as i32, Ordering::Release);
                return Err(errno);
            }
            // SAFETY: as above.
            done(unsafe { libc::syscall(libc::SYS_execve, plan.exec_path, argv, envp) })
        }
    }
}

fn unchanged(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: an all-zero statx is valid; the kernel writes one statx. statx(2) rather than stat(2), whose
    // structure differs between C libraries and kernel.
    let found = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let mask = libc::STATX_INO | libc::STATX_TYPE;
        let path = plan.path.as_ptr();
        done(libc::syscall(libc::SYS_statx, libc::AT_FDCWD, path, 0, mask, &raw mut found))?;
        found
    };
    let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
    if device == plan.device && found.stx_ino == plan.inode { Ok(()) } else { Err(libc::ESTALE) }
}
