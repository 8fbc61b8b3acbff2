//! Processes: making, waiting for, signalling and describing them.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::check;

/// A process number, always as this process's PID namespace sees it.
pub type Pid = libc::pid_t;

/// The two sides of [`fork`].
pub enum Forked {
    /// In the parent: the child's number, and a descriptor for it (Linux 5.2).
    Parent(Pid, Option<OwnedFd>),
    /// In the child.
    Child,
}

/// Forks by the raw system call, with namespace flags (`CLONE_NEWPID` and so on).
///
/// Where the caller has one thread only, see [`thread_count`], the child may allocate; else it may make raw calls and
/// nothing more. The C library's fork handlers do not run.
pub(crate) fn fork(flags: libc::c_int) -> io::Result<Forked> {
    super::arena::leave_alone();
    let mut pidfd: RawFd = -1;
    let all = libc::c_long::from(flags | libc::CLONE_PIDFD | libc::SIGCHLD);
    let none = 0 as libc::c_long;
    // SAFETY: without CLONE_VM the child has its own copy of this memory and returns on its own copy of this
    // stack (stack pointer 0). The third argument is where CLONE_PIDFD writes, on every architecture.
    let pid = unsafe { libc::syscall(libc::SYS_clone, all, none, &raw mut pidfd, none, none) };
    if check(pid)? == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: the kernel just opened this descriptor for us and nobody else knows it.
    let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    Ok(Forked::Parent(pid as Pid, pidfd))
}

/// Leaves at once: no destructors, no `atexit`, no flushing.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) does not return and touches no memory of ours.
    unsafe { libc::_exit(status) }
}

/// How many threads this process has, `None` where `/proc` cannot tell. One stat(2): the link count of
/// `/proc/self/task` is the number of threads and two.
pub fn thread_count() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/task").ok().map(|m| m.nlink().saturating_sub(2))
}

/// What a process used, from `wait4` or `getrusage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// User time.
    pub user: Duration,
    /// System time.
    pub system: Duration,
    /// Greatest resident set in bytes.
    pub max_rss: u64,
}

impl Usage {
    /// User and system time.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }

    fn from_raw(raw: &libc::rusage) -> Usage {
        let time = |t: libc::timeval| {
            Duration::from_secs(t.tv_sec.max(0) as u64) + Duration::from_micros(t.tv_usec.max(0) as u64)
        };
        Usage {
            user: time(raw.ru_utime),
            system: time(raw.ru_stime),
            max_rss: (raw.ru_maxrss.max(0) as u64) << 10,
        }
    }
}

/// getrusage(2) of all children waited for, and theirs.
pub fn usage_of_children() -> Usage {
    // SAFETY: an all-zero `rusage` is valid, and getrusage(2) writes nothing beyond it.
    unsafe {
        let mut raw: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut raw);
        Usage::from_raw(&raw)
    }
}

/// What waiting for children came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// This child is gone, with this raw wait status.
    Reaped(Pid, i32, Usage),
    /// There are children, none of them is dead.
    NoneDead,
    /// There are no children at all.
    NoChildren,
}

/// wait4(2) for `pid` (-1: any child, whatever its exit signal), not waiting.
pub fn try_wait(pid: Pid) -> Waited {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is valid; both out-pointers live through the call.
    let (ret, usage) = unsafe {
        let mut raw: libc::rusage = std::mem::zeroed();
        let ret = libc::wait4(pid, &mut status, libc::WNOHANG | libc::__WALL, &mut raw);
        (ret, Usage::from_raw(&raw))
    };
    match ret {
        0 => Waited::NoneDead,
        -1 => Waited::NoChildren,
        pid => Waited::Reaped(pid, status, usage),
    }
}

/// A real-time share of the processor, where it may be had; given back when dropped.
pub struct Urgent(());

impl Urgent {
    /// Asks for it; without the privilege (`CAP_SYS_NICE`) nothing changes.
    pub fn ask() -> Urgent {
        schedule(libc::SCHED_RR, 1);
        Urgent(())
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        schedule(libc::SCHED_OTHER, 0);
    }
}

fn schedule(policy: libc::c_int, priority: libc::c_int) {
    // The first member of `struct sched_param` on every libc is all that the kernel reads.
    let param = [priority, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the kernel reads one int of a live array. The raw call, because musl's wrapper is a stub.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, param.as_ptr()) };
}

/// getpgrp(2).
pub fn own_group() -> Pid {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpgrp() }
}

/// kill(2). The caller vouches for `pid`: -1 inside its own PID namespace, an unreaped child of its own, or a
/// group one of whose members is verified and stopped.
pub(crate) fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: kill(2) takes numbers only.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// pidfd_open(2), Linux 5.3.
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes numbers only.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the kernel just opened this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// pidfd_send_signal(2), Linux 5.1. Never hits another process that came to have the same number.
pub fn pidfd_signal(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    let fd = pidfd.as_fd().as_raw_fd();
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo asks for the same as kill(2); no other pointer is passed.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, 0) }).map(drop)
}

fn prctl(option: libc::c_int, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options used below take one number and no pointer.
    check(unsafe { libc::prctl(option, argument, 0, 0, 0) }.into()).map(drop)
}

/// The signal this process gets when the thread that made it dies (prctl(2), `PR_SET_PDEATHSIG`).
pub fn set_parent_death_signal(signal: i32) -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong)
}

/// `PR_SET_DUMPABLE`: with `false`, others of the same user can neither trace this process nor read its memory.
pub fn set_dumpable(on: bool) -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, on.into())
}

/// `PR_SET_CHILD_SUBREAPER`: orphans below this process become its children.
pub fn set_subreaper(on: bool) -> io::Result<()> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, on.into())
}

/// setsid(2).
pub fn new_session() -> io::Result<()> {
    // SAFETY: setsid(2) takes nothing.
    check(unsafe { libc::setsid() }.into()).map(drop)
}

/// Becomes the leader of a process group of its own.
pub fn new_group() -> io::Result<()> {
    // SAFETY: setpgid(2) takes numbers only.
    check(unsafe { libc::setpgid(0, 0) }.into()).map(drop)
}

/// (effective user, effective group).
pub fn ids() -> (u32, u32) {
    // SAFETY: both calls take nothing and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// getpid(2).
pub fn own_pid() -> Pid {
    // SAFETY: getpid(2) takes nothing and cannot fail. The raw call, because a raw clone was made.
    unsafe { libc::syscall(libc::SYS_getpid) as Pid }
}

/// getppid(2).
pub fn parent() -> Pid {
    // SAFETY: getppid(2) takes nothing and cannot fail. The raw call, as above.
    unsafe { libc::syscall(libc::SYS_getppid) as Pid }
}

/// getrlimit(2): (soft, hard).
pub fn rlimit(resource: u32) -> io::Result<(u64, u64)> {
    let mut pair = [0u64; 2];
    let none = std::ptr::null::<u64>();
    // SAFETY: prlimit64(2) writes two 64-bit numbers.
    check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, none, pair.as_mut_ptr()) })?;
    Ok((pair[0], pair[1]))
}

/// The processors this process may run on, in order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set, and its size is passed along.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let ret = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        check(ret.into())?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect())
    }
}

/// mount(2); `None` is a null pointer.
pub fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    data: Option<&CStr>,
) -> io::Result<()> {
    let ptr = |s: Option<&CStr>| s.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every string is NUL-terminated or null and lives through the call.
    let ret = unsafe { libc::mount(ptr(source), target.as_ptr(), ptr(kind), flags, ptr(data).cast()) };
    check(ret.into()).map(drop)
}

/// How many ticks of `/proc/PID/stat` make a second.
pub fn ticks_per_second() -> u64 {
    // SAFETY: sysconf(3) takes a number only.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&t| t > 0).unwrap_or(100)
}

/// For tests: runs `body` in a forked process (which thereby has one thread) and leaves with its result.
#[cfg(test)]
pub(crate) fn fork_for_test(body: impl FnOnce() -> i32) -> Pid {
    // SAFETY: the C library's own fork puts its allocator into a usable state in the child.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            exit_now(caught.unwrap_or(101))
        }
        pid => pid,
    }
}

/// For tests: becomes an ordinary user without groups.
#[cfg(test)]
pub(crate) fn become_user_for_test(id: u32) {
    // SAFETY: raw calls with numbers only, in a process with one thread.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, id, id, id), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, id, id, id), 0);
    }
    let _ = set_dumpable(true);
}

/// For tests: asks for new namespaces, in a user namespace of its own where that is needed; whether they were given.
#[cfg(test)]
pub(crate) fn unshare_for_test(flags: libc::c_int) -> bool {
    // SAFETY: unshare(2) takes numbers only, in a process with one thread.
    unsafe { libc::unshare(flags) == 0 || libc::unshare(flags | libc::CLONE_NEWUSER) == 0 }
}

/// For tests: moves into a user namespace in which no further one can be made.
#[cfg(test)]
pub(crate) fn forbid_namespaces_for_test() {
    let (uid, gid) = ids();
    // SAFETY: takes a number only, in a process with one thread.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWUSER) }, 0);
    for (file, text) in [
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
        ("/proc/sys/user/max_user_namespaces", "0".to_owned()),
    ] {
        std::fs::write(file, text).unwrap_or_else(|e| panic!("{file}: {e}"));
    }
}
