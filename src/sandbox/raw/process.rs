//! A forked child that tries something and says how far it came.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Errno, check, open, prctl};

/// How far a trial came: done, or the number of the step that failed and its errno (0: it went through, and should
/// have been refused).
pub type Trial = Result<(), (u8, Errno)>;

/// Forks, runs `body` in the child and returns what it came to. The child may only make raw calls: the caller may have
/// threads. It is killed by SIGALRM after five seconds.
///
/// # Errors
/// What `body` returned, or step 255 with the errno of pipe2(2), fork(2), or `EIO` where the child died.
pub fn try_in_child(body: impl FnOnce() -> Trial) -> Trial {
    const OURS: u8 = 255;
    let mut ends = [0_i32; 2];
    // SAFETY: room for two descriptors.
    check(unsafe { libc::syscall(libc::SYS_pipe2, ends.as_mut_ptr(), libc::O_CLOEXEC) })
        .map_err(|e| (OURS, e))?;
    // SAFETY: descriptors that the kernel has just made.
    let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // SAFETY: the child makes raw calls only and leaves through _exit.
    let pid = check(libc::c_long::from(unsafe { libc::fork() })).map_err(|e| (OURS, e))?;
    if pid == 0 {
        // SAFETY: a number.
        unsafe { libc::alarm(5) };
        let bytes = match body() {
            Ok(()) => [0, 0, 0],
            Err((step, errno)) => [1, step, u8::try_from(errno).unwrap_or(u8::MAX)],
        };
        // SAFETY: three bytes from our own array; then the end.
        unsafe {
            libc::write(writer.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
            libc::_exit(0);
        }
    }
    drop(writer);
    let mut bytes = [0_u8; 3];
    // SAFETY: room for three bytes.
    let mut got = || unsafe { libc::read(reader.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    let mut length = got();
    while length < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
        length = got();
    }
    reap(pid);
    match (length, bytes) {
        (3, [0, ..]) => Ok(()),
        (3, [_, step, errno]) => Err((step, Errno::from(errno))),
        _ => Err((OURS, libc::EIO)),
    }
}

fn reap(pid: libc::c_long) {
    let pid = libc::pid_t::try_from(pid).unwrap_or(-1);
    // SAFETY: waits for our own child; no status is wanted.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) } < 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
}

/// unshare(2).
///
/// # Errors
/// Its errno.
pub fn unshare(flags: i32) -> Result<(), Errno> {
    // SAFETY: a number.
    check(unsafe { libc::syscall(libc::SYS_unshare, flags) }).map(|_| ())
}

/// Lets this process's own files in /proc be its user's, which a guard that hides its memory took away.
///
/// # Errors
/// The errno of prctl(2).
pub fn be_dumpable() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 1, 0).map(|_| ())
}

/// Writes a short file of /proc in one call.
///
/// # Errors
/// The errno of openat(2) or write(2).
pub fn write_file(path: &CStr, content: &CStr) -> Result<(), Errno> {
    let file = open(path, libc::O_WRONLY)?;
    let bytes = content.to_bytes();
    // SAFETY: the bytes live through the call.
    check(unsafe { libc::syscall(libc::SYS_write, file.as_raw_fd(), bytes.as_ptr(), bytes.len()) })
        .map(|_| ())
}

/// This process's number in its namespace, asked of the kernel.
pub fn own_number() -> libc::c_long {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_getpid) }
}

/// Makes a pair of Unix datagram sockets: what every filter refuses with `EACCES`, and the kernel never does.
///
/// # Errors
/// The errno of socketpair(2).
pub fn datagram_pair() -> Result<(), Errno> {
    let mut pair = [0_i32; 2];
    // SAFETY: room for two descriptors; they go with the probing child.
    check(unsafe {
        libc::syscall(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr())
    })
    .map(|_| ())
}

/// Sets the loopback interface of this network namespace up.
///
/// # Errors
/// The errno of socket(2) or ioctl(2).
pub fn loopback_up() -> Result<(), Errno> {
    // SAFETY: numbers only.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
    })?;
    // SAFETY: a descriptor that the kernel has just made.
    let fd = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| libc::EBADF)?) };
    // SAFETY: an all-zero request is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the request lives through the call.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })?;
    Ok(())
}
