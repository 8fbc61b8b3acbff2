//! The system call filter: short, a search tree, and nothing that ordinary programs notice.
//!
//! Another architecture's calls (`int 0x80`) kill the process, because their numbers mean something else; x32
//! and calls that are newer than this table return `ENOSYS`. Pointers are never followed: what hides in memory
//! (clone3, openat2, the address in sendmsg) is refused, or made harmless by what cannot be opened.
//!
//! The network, `none`: no call makes a socket but socketpair, and that only as a stream or a sequenced-packet pair. A
//! datagram pair is refused, because sendmsg on it can name any Unix socket of the host; `SOCK_RAW` too, because the
//! kernel makes a datagram socket of it (`unix_create`, net/unix/af_unix.c). Where the policy lists Unix sockets, connect
//! waits for the guard, which makes the connection itself.

use std::os::fd::{AsFd as _, RawFd};

use libc::{EACCES, ENOSYS, EPERM, EPROTONOSUPPORT, sock_filter};

use super::raw::{self, Errno, notify};
use bpf::{Checks, Verdict, fail};

mod bpf;
mod table;

/// What the run may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// Exactly one exec, the guard's own, whose path lies at this address (`raw::secret`); after it none, whatever
    /// the program tries: not even another thread or an execute right elsewhere helps.
    Once {
        /// The address of the path (of the empty string where `by_descriptor`).
        secret: u64,
        /// The guard uses `execveat(fd, "", ..., AT_EMPTY_PATH)`, else `execve(path, ...)`.
        by_descriptor: bool,
    },
    /// execve names any file that Landlock lets it execute; no file without a path (memfd) can be executed. The guard's
    /// own execveat is let through by its secret address.
    List {
        /// The address of the guard's empty path, or `None` where it uses execve.
        secret: Option<u64>,
    },
    /// No restriction here.
    Any,
}

/// Which sockets there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// None but stream pairs.
    None,
    /// Unix stream and sequenced-packet sockets, of which each connect waits for the guard (`sandbox::door`).
    Unix,
    /// IPv4 and IPv6: TCP, UDP and ICMP echo. No netlink: `getifaddrs` fails, name resolution works without. In the
    /// host's network namespace or in one of the run's own.
    Internet {
        /// Unix sockets too. The filter does not see what is connected or bound, so all of it waits for the guard.
        unix: bool,
    },
}

impl Network {
    /// Whether there are calls that wait for the guard: then the filter needs [`apply_listening`].
    pub fn waits(self) -> bool {
        matches!(self, Network::Unix | Network::Internet { unix: true })
    }
}

/// What the filter is made for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What may be started.
    pub execution: Execution,
    /// Which sockets.
    pub network: Network,
    /// The run is in a PID namespace of its own: other numbers than 0 name its own tasks only, and its init.
    pub pid_namespace: bool,
    /// The run is in an IPC namespace of its own; else System V and POSIX queues are refused.
    pub ipc_namespace: bool,
    /// Changing modes, owners, times and attributes is left to the mounts; else it is refused everywhere, which some
    /// programs (cp -p, tar, git init) report as an error.
    pub attributes: bool,
    /// Landlock mediates truncation (ABI 3); else truncate(2) and `O_RDONLY | O_TRUNC` are refused.
    pub truncate_by_path: bool,
    /// openat2 is left: its flags are in memory, where the filter does not see that a file is opened for neither reading
    /// nor writing. Else it does not exist (`ENOSYS`), as before Linux 5.6.
    pub openat2: bool,
}

/// A filter that is ready to be installed.
#[derive(Debug)]
pub struct Prepared {
    program: Box<[sock_filter]>,
}

/// The audit name of this build's architecture (uapi/linux/audit.h).
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
/// The audit name of this build's architecture (uapi/linux/audit.h).
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// `CLONE_NEWNS`, `NEWCGROUP`, `NEWUTS`, `NEWIPC`, `NEWUSER`, `NEWPID`, `NEWNET`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
/// `CLONE_NEWTIME`: a flag of unshare only, part of the exit signal in clone.
const NEW_TIME: u32 = 0x80;
/// `MFD_NOEXEC_SEAL` (6.3).
const MFD_NOEXEC_SEAL: u32 = 8;
/// `TIOCSTI`, `TIOCLINUX`, `TIOCSETD`, `TIOCCONS`: typing for others, and line disciplines.
const TTY_IOCTLS: [u32; 4] = [0x5412, 0x541c, 0x5423, 0x541d];
/// Personalities without effect on protection: Linux, its 32-bit form, no ASLR, and "which is it".
const PERSONALITIES: [u32; 4] = [0, 0x0008, 0x0004_0000, 0xffff_ffff];
/// `RLIMIT_CORE`, of which the C libraries differ in the sign.
const RLIMIT_CORE: u32 = 4;
/// The part of a socket type that is the type (`SOCK_TYPE_MASK`).
const SOCK_TYPE_MASK: u32 = 0xf;
const ALL: u32 = u32::MAX;

impl Prepared {
    /// Builds the filter: some microseconds, no system call.
    pub fn new(options: &Options) -> Prepared {
        let mut verdicts = Vec::with_capacity(160);
        for number in table::REFUSED.iter().chain(table::REFUSED_HERE) {
            verdicts.push((*number as u32, Verdict::Always(fail(table::REFUSED_ERRNO))));
        }
        for number in table::IO_URING.iter().chain(&[table::CLONE3]) {
            verdicts.push((*number as u32, Verdict::Always(fail(ENOSYS))));
        }
        kernel_state(&mut verdicts);
        other_tasks(options.pid_namespace, &mut verdicts);
        execution(options.execution, &mut verdicts);
        network(options.network, &mut verdicts);
        files(options, &mut verdicts);
        let program = bpf::assemble(AUDIT_ARCH, verdicts, table::FIRST_UNKNOWN);
        Prepared { program }
    }

    /// The number of instructions (the kernel takes 4096).
    pub fn instructions(&self) -> usize {
        self.program.len()
    }
}

/// As [`apply`], for a filter with calls that wait for the guard; the descriptor where they arrive goes over `channel`.
///
/// # Errors
/// The errno of seccomp(2), `EBUSY` inside a run that has such a filter; or of sendmsg(2).
pub fn apply_listening(filter: &Prepared, channel: RawFd) -> Result<(), Errno> {
    let listener = notify::install_listening(&filter.program)?;
    notify::hand_over(channel, listener.as_fd())
}

/// Installs the filter on the calling thread. Needs no-new-privileges. One raw call.
///
/// # Errors
/// The errno of seccomp(2).
pub fn apply(filter: &Prepared) -> Result<(), Errno> {
    raw::seccomp_install(&filter.program)
}

type Verdicts = Vec<(u32, Verdict)>;

fn always(verdicts: &mut Verdicts, numbers: &[libc::c_long], action: u32) {
    verdicts.extend(numbers.iter().map(|number| (*number as u32, Verdict::Always(action))));
}

fn when(verdicts: &mut Verdicts, number: libc::c_long, checks: Checks) {
    verdicts.push((number as u32, Verdict::If(checks)));
}

/// Namespaces, personalities, terminals.
fn kernel_state(v: &mut Verdicts) {
    let refused = fail(EPERM);
    when(v, libc::SYS_clone, Checks::new().no_bits(0, NEW_NAMESPACES, refused));
    when(v, libc::SYS_unshare, Checks::new().no_bits(0, NEW_NAMESPACES | NEW_TIME, refused));
    when(v, libc::SYS_personality, Checks::new().one_of(0, ALL, &PERSONALITIES, refused));
    when(v, libc::SYS_ioctl, Checks::new().none_of(1, ALL, &TTY_IOCTLS, refused));
}

/// Limits, priorities and processors of other tasks: the kernel lets every process of the same user change them, and
/// `RLIMIT_CPU` kills.
fn other_tasks(pid_namespace: bool, v: &mut Verdicts) {
    let refused = fail(EPERM);
    // The limit of 1 on core files keeps a `core_pattern` handler of the host from being started, which 0 would not
    // (core(5)). A program that sets it means to leave no core: it is told that this is done, and it is.
    let done = fail(0);
    let core = [RLIMIT_CORE];
    let own = Checks::new().allow_if_null(2).none_of(1, ALL, &core, done).one_of(0, ALL, &[0], refused);
    when(v, libc::SYS_prlimit64, own);
    when(v, libc::SYS_setrlimit, Checks::new().none_of(0, ALL, &core, done));
    // PRIO_PROCESS is 0, IOPRIO_WHO_PROCESS is 1.
    when(v, libc::SYS_setpriority, Checks::new().one_of(0, ALL, &[0], refused).one_of(1, ALL, &[0], refused));
    when(v, libc::SYS_ioprio_set, Checks::new().one_of(0, ALL, &[1], refused).one_of(1, ALL, &[0], refused));
    for number in [libc::SYS_migrate_pages, libc::SYS_move_pages] {
        when(v, number, Checks::new().one_of(0, ALL, &[0], refused));
    }
    // A thread's affinity is set by its number, so with a namespace of its own only init is out of reach.
    for number in [
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setaffinity,
    ] {
        let checks = Checks::new();
        let checks = if pid_namespace {
            checks.none_of(0, ALL, &[1], refused)
        } else {
            checks.one_of(0, ALL, &[0], refused)
        };
        when(v, number, checks);
    }
    if !pid_namespace {
        // The main process dies with the guard: it may not take that back (SIGKILL only).
        let death_signal = [libc::PR_SET_PDEATHSIG as u32];
        let kill = [libc::SIGKILL as u32];
        when(v, libc::SYS_prctl, Checks::new().allow_unless(0, &death_signal).one_of(1, ALL, &kill, refused));
    }
}

fn execution(execution: Execution, v: &mut Verdicts) {
    let no_memory_files = || Checks::new().some_bit(1, MFD_NOEXEC_SEAL, fail(EACCES));
    let at_empty_path = [libc::AT_EMPTY_PATH as u32];
    let own_execveat = |secret, errno| {
        Checks::new().exactly(1, secret, fail(errno)).one_of(4, ALL, &at_empty_path, fail(errno))
    };
    match execution {
        Execution::Any => return,
        Execution::Once { secret, by_descriptor: true } => {
            always(v, &[libc::SYS_execve], fail(EACCES));
            when(v, libc::SYS_execveat, own_execveat(secret, EACCES));
        }
        Execution::Once { secret, by_descriptor: false } => {
            when(v, libc::SYS_execve, Checks::new().exactly(0, secret, fail(EACCES)));
            always(v, &[libc::SYS_execveat], fail(EACCES));
        }
        // fexecve(3) falls back to /proc/self/fd on ENOSYS, where Landlock sees the file.
        Execution::List { secret: Some(secret) } => {
            when(v, libc::SYS_execveat, own_execveat(secret, ENOSYS));
        }
        Execution::List { secret: None } => always(v, &[libc::SYS_execveat], fail(ENOSYS)),
    }
    when(v, libc::SYS_memfd_create, no_memory_files());
}

fn network(network: Network, v: &mut Verdicts) {
    const UNIX: u32 = libc::AF_UNIX as u32;
    const STREAM: u32 = libc::SOCK_STREAM as u32;
    const DATAGRAM: u32 = libc::SOCK_DGRAM as u32;
    const PACKETS: u32 = libc::SOCK_SEQPACKET as u32;
    let refused = fail(EACCES);
    let streams =
        Checks::new().one_of(0, ALL, &[UNIX], refused).one_of(1, SOCK_TYPE_MASK, &[STREAM, PACKETS], refused);
    when(v, libc::SYS_socketpair, streams.clone());
    let families = [libc::AF_INET as u32, libc::AF_INET6 as u32];
    // Default, ICMP, TCP, UDP, ICMPv6. Anything else would load modules (SCTP, DCCP) or go round TCP rules (MPTCP).
    let protocols = [0, 1, 6, 17, 58];
    let internet = |checks: Checks| {
        checks
            .one_of(0, ALL, &families, refused)
            .one_of(1, SOCK_TYPE_MASK, &[STREAM, DATAGRAM], refused)
            .one_of(2, ALL, &protocols, fail(EPROTONOSUPPORT))
    };
    match network {
        Network::None => {
            always(v, table::SOCKETS, refused);
            always(v, &[libc::SYS_socket], refused);
            when(v, libc::SYS_sendto, Checks::new().exactly(4, 0, refused));
        }
        Network::Unix => {
            let others: Vec<_> =
                table::SOCKETS.iter().copied().filter(|call| *call != libc::SYS_connect).collect();
            always(v, &others, refused);
            always(v, &[libc::SYS_connect], bpf::NOTIFY);
            when(v, libc::SYS_socket, streams);
            when(v, libc::SYS_sendto, Checks::new().exactly(4, 0, refused));
        }
        Network::Internet { unix: false } => when(v, libc::SYS_socket, internet(Checks::new())),
        Network::Internet { unix: true } => {
            always(v, &[libc::SYS_connect, libc::SYS_bind], bpf::NOTIFY);
            let unix = Checks::new().allow_if_both((0, ALL, UNIX), (1, SOCK_TYPE_MASK, &[STREAM, PACKETS]));
            when(v, libc::SYS_socket, internet(unix));
        }
    }
}

/// What Landlock does not mediate, or not yet.
fn files(options: &Options, v: &mut Verdicts) {
    if !options.attributes {
        always(v, table::ATTRIBUTES, fail(EPERM));
        always(v, table::ATTRIBUTES_HERE, fail(EPERM));
    }
    if !options.ipc_namespace {
        always(v, table::IPC, fail(EACCES));
    }
    let opens = |checks: &dyn Fn(u32) -> Checks, v: &mut Verdicts| {
        when(v, libc::SYS_openat, checks(2));
        #[cfg(target_arch = "x86_64")]
        when(v, libc::SYS_open, checks(1));
    };
    let refused = fail(EACCES);
    // With neither reading nor writing (3, for ioctl) Landlock has nothing to look at.
    let neither = libc::O_ACCMODE as u32;
    if options.truncate_by_path {
        opens(&|flags| Checks::new().none_of(flags, neither, &[neither], refused), v);
    } else {
        always(v, &[libc::SYS_truncate], refused);
        let truncate = libc::O_TRUNC as u32;
        let mask = neither | truncate;
        let bad = [libc::O_RDONLY as u32 | truncate, neither, neither | truncate];
        opens(&|flags| Checks::new().none_of(flags, mask, &bad, refused), v);
    }
    if !options.openat2 {
        always(v, &[table::OPENAT2], fail(ENOSYS));
    }
}

#[cfg(test)]
mod tests;
