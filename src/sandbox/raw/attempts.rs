//! What `selftest` tries from inside a run, one system call or a short sequence each. Every function is safe to call, and
//! harmless: where it succeeds it changes nothing but files made for it, or the forked process it runs in.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Errno, check, open, prctl};

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// It succeeded.
    Open,
    /// It failed with this errno.
    Refused(Errno),
    /// The process that made it was killed by this signal.
    Killed(i32),
}

/// Makes an attempt in a forked process, which it may end or replace; at most five seconds.
///
/// # Errors
/// The errno of pipe2(2) or fork(2): nothing was tried.
pub fn apart(body: impl FnOnce() -> Result<(), Errno>) -> Result<Came, Errno> {
    let mut ends = [0_i32; 2];
    // SAFETY: room for two descriptors.
    check(unsafe { libc::syscall(libc::SYS_pipe2, ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: descriptors that the kernel has just made.
    let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // SAFETY: this process has one thread, and the child leaves through _exit or exec.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a number.
        unsafe { libc::alarm(5) };
        let code = body().err().unwrap_or(0);
        // SAFETY: four bytes of our own; then the end.
        unsafe {
            libc::write(writer.as_raw_fd(), (&raw const code).cast(), 4);
            libc::_exit(0);
        }
    }
    check(pid.into())?;
    drop(writer);
    let (mut code, mut status) = (0_i32, 0_i32);
    // SAFETY: room for four bytes, and for a status; both calls are about our own child.
    let got = unsafe {
        let got = libc::read(reader.as_raw_fd(), (&raw mut code).cast(), 4);
        libc::waitpid(pid, &raw mut status, 0);
        got
    };
    Ok(match (got, code) {
        (4, 0) => Came::Open,
        (4, errno) => Came::Refused(errno),
        _ if libc::WIFSIGNALED(status) => Came::Killed(libc::WTERMSIG(status)),
        // Replaced by an exec.
        _ => Came::Open,
    })
}

type Tried = Result<(), Errno>;

/// Opens a file with these flags, and reads a byte where it was opened for reading.
pub fn open_file(path: &CStr, flags: i32) -> Tried {
    let file = open(path, flags | libc::O_NONBLOCK)?;
    if flags & (libc::O_ACCMODE | libc::O_DIRECTORY) != libc::O_RDONLY {
        return Ok(());
    }
    let mut byte = 0_u8;
    // SAFETY: room for one byte.
    check(unsafe { libc::syscall(libc::SYS_read, file.as_raw_fd(), &raw mut byte, 1) }).map(|_| ())
}

/// truncate(2) to the length that it is made with.
pub fn truncate(path: &CStr, length: i64) -> Tried {
    // SAFETY: a C string and a number.
    check(unsafe { libc::syscall(libc::SYS_truncate, path.as_ptr(), length) }).map(|_| ())
}

/// rename(2) there and back.
pub fn rename(from: &CStr, to: &CStr) -> Tried {
    let at = libc::AT_FDCWD;
    // SAFETY: C strings.
    unsafe {
        check(libc::syscall(libc::SYS_renameat2, at, from.as_ptr(), at, to.as_ptr(), 0))?;
        check(libc::syscall(libc::SYS_renameat2, at, to.as_ptr(), at, from.as_ptr(), 0)).map(|_| ())
    }
}

/// Replaces this process by a shell that exits with 0.
pub fn exec_shell() -> Tried {
    let argv = [c"sh".as_ptr(), c"-c".as_ptr(), c"exit 0".as_ptr(), std::ptr::null()];
    let envp = [std::ptr::null::<libc::c_char>()];
    // SAFETY: null-terminated arrays of C strings.
    check(unsafe { libc::syscall(libc::SYS_execve, c"/bin/sh".as_ptr(), argv.as_ptr(), envp.as_ptr()) })
        .map(|_| ())
}

/// The same by way of the loader named, which needs no right to execute the shell.
pub fn exec_loader(loader: &CStr) -> Tried {
    let argv = [c"ld.so".as_ptr(), c"/bin/sh".as_ptr(), c"-c".as_ptr(), c"exit 0".as_ptr(), std::ptr::null()];
    let envp = [std::ptr::null::<libc::c_char>()];
    // SAFETY: null-terminated arrays of C strings.
    check(unsafe { libc::syscall(libc::SYS_execve, loader.as_ptr(), argv.as_ptr(), envp.as_ptr()) })
        .map(|_| ())
}

/// Copies the shell into memory and replaces this process by that.
pub fn exec_memory() -> Tried {
    let from = open(c"/bin/sh", libc::O_RDONLY)?;
    // SAFETY: a C string and a number.
    let to = check(unsafe { libc::syscall(libc::SYS_memfd_create, c"x".as_ptr(), 0) })?;
    let argv = [c"sh".as_ptr(), c"-c".as_ptr(), c"exit 0".as_ptr(), std::ptr::null()];
    let envp = [std::ptr::null::<libc::c_char>()];
    // SAFETY: no pointer but null, then an empty C string and null-terminated arrays of C strings.
    unsafe {
        let none = std::ptr::null::<i64>();
        while check(libc::syscall(libc::SYS_sendfile, to, from.as_raw_fd(), none, 1 << 20))? > 0 {}
        let (path, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
        check(libc::syscall(libc::SYS_execveat, to, path, argv.as_ptr(), envp.as_ptr(), flags)).map(|_| ())
    }
}

/// Makes a socket.
pub fn socket(family: i32, kind: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_socket, family, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: a descriptor that the kernel has just made.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| libc::EBADF)?) })
}

/// The address of a Unix socket, and how long it is; an abstract name begins with a NUL byte.
fn unix_address(name: &[u8]) -> Result<(libc::sockaddr_un, usize), Errno> {
    // SAFETY: an all-zero address is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let room = address.sun_path.get_mut(..name.len()).ok_or(libc::ENAMETOOLONG)?;
    for (to, from) in room.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    Ok((address, std::mem::offset_of!(libc::sockaddr_un, sun_path) + name.len()))
}

/// Connects to a Unix stream socket.
pub fn connect_unix(name: &[u8]) -> Tried {
    let (address, length) = unix_address(name)?;
    let fd = socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
    // SAFETY: the address lives through the call and is at least that long.
    check(unsafe { libc::syscall(libc::SYS_connect, fd.as_raw_fd(), &raw const address, length) }).map(|_| ())
}

/// Sends a byte to a Unix datagram socket from one half of a pair.
pub fn pair_to_unix(name: &[u8]) -> Tried {
    let (address, length) = unix_address(name)?;
    let mut pair = [0_i32; 2];
    // SAFETY: room for two descriptors, a byte, and an address that is at least that long. The descriptors go with
    // this process.
    unsafe {
        check(libc::syscall(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr()))?;
        let (byte, to) = (c"x".as_ptr(), &raw const address);
        check(libc::syscall(libc::SYS_sendto, pair[0], byte, 1_usize, 0, to, length)).map(|_| ())
    }
}

/// io_uring_setup(2).
pub fn io_uring() -> Tried {
    let mut params = [0_u64; 32];
    // SAFETY: the kernel's structure is shorter than the array.
    check(unsafe { libc::syscall(425, 4_u32, params.as_mut_ptr()) }).map(|_| ())
}

/// Lets this process be traced.
pub fn trace_me() -> Tried {
    // SAFETY: numbers.
    check(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) }).map(|_| ())
}

/// Begins to trace a process without stopping it; the end of this process lets it go.
pub fn trace(pid: i32) -> Tried {
    const SEIZE: i32 = 0x4206;
    // SAFETY: numbers.
    check(unsafe { libc::syscall(libc::SYS_ptrace, SEIZE, pid, 0, 0) }).map(|_| ())
}

/// Signal 0: only the permission.
pub fn may_signal(pid: i32) -> Tried {
    // SAFETY: numbers.
    check(unsafe { libc::syscall(libc::SYS_kill, pid, 0) }).map(|_| ())
}

/// Gives a process the processor time limit that it has.
pub fn limit(pid: i32) -> Tried {
    let mut limit = [0_u64; 2];
    let (old, none) = (limit.as_mut_ptr(), std::ptr::null_mut::<u64>());
    let cpu = libc::RLIMIT_CPU;
    // SAFETY: two numbers that live through both calls.
    unsafe {
        check(libc::syscall(libc::SYS_prlimit64, pid, cpu, none, old))?;
        check(libc::syscall(libc::SYS_prlimit64, pid, cpu, old, none)).map(|_| ())
    }
}

/// Gives a process the priority that it has.
pub fn prioritize(pid: i32) -> Tried {
    // SAFETY: numbers. The raw call gives 20 minus the value that it takes.
    unsafe {
        let nice = 20 - check(libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, pid))?;
        check(libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, pid, nice)).map(|_| ())
    }
}

/// A user namespace, and a change of mounts in it.
pub fn namespaces() -> Tried {
    super::process::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
    super::mounts::make_private()
}

/// The session keyring.
pub fn keyring() -> Tried {
    const GET_KEYRING_ID: i32 = 0;
    const SESSION: i32 = -3;
    // SAFETY: numbers.
    check(unsafe { libc::syscall(libc::SYS_keyctl, GET_KEYRING_ID, SESSION, 1) }).map(|_| ())
}

/// userfaultfd(2), for faults in user mode only.
pub fn user_faults() -> Tried {
    // SAFETY: a number.
    check(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1) }).map(|_| ())
}

/// Types for whoever reads a terminal. Standard input is none here, so `ENOTTY` means that nothing refused it.
pub fn type_for_others() -> Tried {
    // SAFETY: a C string of which one byte is read.
    let typed = check(unsafe { libc::syscall(libc::SYS_ioctl, 0, 0x5412, c"x".as_ptr()) });
    typed.map(|_| ()).or_else(|errno| if errno == libc::ENOTTY { Ok(()) } else { Err(errno) })
}

/// Any capability to use, or to get at an exec.
pub fn capabilities() -> Tried {
    let header = [0x2008_0522_u32, 0];
    let mut sets = [0_u32; 6];
    // SAFETY: the structures of version 3: two words, and twice three words.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) })?;
    let ambient = (0..64).any(|cap| prctl(libc::PR_CAP_AMBIENT, 1 /* IS_SET */, cap) == Ok(1));
    if ambient || sets.iter().any(|set| *set != 0) { Ok(()) } else { Err(libc::EPERM) }
}

/// A 32-bit system call (getpid) from a 64-bit program.
#[cfg(target_arch = "x86_64")]
pub fn other_abi() -> Tried {
    let mut number = 20_i64;
    // SAFETY: getpid by the 32-bit gate; it takes nothing, and changes rax and perhaps r8 to r11.
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") number, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    if number > 0 { Ok(()) } else { Err(Errno::try_from(-number).unwrap_or(libc::ENOSYS)) }
}

/// A process that left its parents, and holds a lock on a file for two seconds unless it is ended.
pub fn daemon(file: &CStr) -> Tried {
    let file = open(file, libc::O_RDONLY)?;
    let mut ready = [0_i32; 2];
    // SAFETY: room for two descriptors; this process has one thread; the children leave through _exit.
    unsafe {
        check(libc::syscall(libc::SYS_pipe2, ready.as_mut_ptr(), libc::O_CLOEXEC))?;
        if check(libc::fork().into())? > 0 {
            libc::close(ready[1]);
            let mut byte = 0_u8;
            // Until it holds the lock.
            libc::read(ready[0], (&raw mut byte).cast(), 1);
            return Ok(());
        }
        libc::setsid();
        if libc::fork() == 0 {
            libc::alarm(2);
            libc::flock(file.as_raw_fd(), libc::LOCK_SH);
            for fd in 0..3 {
                libc::close(fd);
            }
            libc::write(ready[1], c"x".as_ptr().cast(), 1);
            libc::sleep(10);
        }
        libc::_exit(0)
    }
}
