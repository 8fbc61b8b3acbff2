//! Descriptors: pipes, sockets, reading and writing, waiting.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::check;
use super::signal::SignalSet;

fn own(fd: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(fd.into())?;
    // SAFETY: the call that returned this number just opened it; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn own_pair(fds: [libc::c_int; 2], ret: libc::c_int) -> io::Result<(OwnedFd, OwnedFd)> {
    check(ret.into())?;
    Ok((own(fds[0])?, own(fds[1])?))
}

/// A pipe, close-on-exec: (read end, write end).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for the two numbers that pipe2(2) writes.
    let ret = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) };
    own_pair(fds, ret)
}

/// Whether reading this pipe can come to anything: there is something in it, or somebody has it open for writing. Nothing is
/// taken out of it.
pub fn may_be_written_to(pipe_read: BorrowedFd<'_>) -> io::Result<bool> {
    let (_kept, write) = pipe()?;
    let flags = libc::SPLICE_F_NONBLOCK;
    // SAFETY: takes numbers only; both are open for the time of the call.
    let copied = unsafe { libc::tee(pipe_read.as_raw_fd(), write.as_raw_fd(), 1, flags) };
    match check(copied as libc::c_long) {
        Ok(length) => Ok(length > 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// Gives a pipe room for so many bytes (`F_SETPIPE_SZ`).
///
/// # Errors
/// `EPERM` where the user's pipes take too much already.
pub fn widen_pipe(pipe: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    // SAFETY: fcntl(2) takes numbers only.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) }.into()).map(drop)
}

/// Two connected message sockets, close-on-exec. The death of one holder is an end of file for the other.
pub fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for the two numbers that socketpair(2) writes.
    let ret = unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())
    };
    own_pair(fds, ret)
}

/// open(2) of a path with these flags, which make no file; `O_CLOEXEC` is added. The raw call: musl's own asks for that
/// flag a second time (`F_SETFD`), for kernels before 2.6.23.
pub fn open(path: &CStr, flags: i32) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC | libc::O_LARGEFILE;
    // SAFETY: `path` is NUL-terminated and lives through the call.
    let fd = check(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) })?;
    // SAFETY: the kernel just opened this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// All that a small file holds.
///
/// # Errors
/// open(2) or read(2).
pub fn read_whole(path: &CStr) -> io::Result<Vec<u8>> {
    let file = open(path, libc::O_RDONLY)?;
    let mut bytes = vec![0; 4096];
    let mut length = 0;
    loop {
        match read(file.as_fd(), &mut bytes[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The same descriptor under a number above 2, so that a later `dup2` onto 0, 1 or 2 cannot overwrite it.
pub fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    // SAFETY: `fd` is open for the time of the call.
    own(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })
}

/// A copy, above 2 and close-on-exec, of a descriptor that the caller handed over by number.
///
/// # Errors
/// It is not open (`EBADF`).
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only; a number that is not open is an error return.
    own(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })
}

/// Whether this descriptor was opened for writing.
pub fn is_writable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: fcntl(2) with F_GETFL takes no pointers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) }.into())? as i32;
    Ok(matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR) && flags & libc::O_PATH == 0)
}

/// Sets or clears `O_NONBLOCK` on the open file description.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    // SAFETY: fcntl(2) with F_GETFL and F_SETFL takes no pointers.
    unsafe {
        let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL).into())? as i32;
        let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags).into())?;
    }
    Ok(())
}

/// read(2).
pub fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its whole length.
    let n = unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) };
    check(n as libc::c_long).map(|n| n as usize)
}

/// write(2).
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is readable for its whole length.
    let n = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    check(n as libc::c_long).map(|n| n as usize)
}

/// send(2) on a socket, never waiting and never raising `SIGPIPE`.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer is readable for its whole length.
    let n = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    check(n as libc::c_long).map(|n| n as usize)
}

/// recv(2) on a socket, never waiting; 0 means that the other side is gone.
pub fn recv(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its whole length.
    let n = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) };
    check(n as libc::c_long).map(|n| n as usize)
}

/// What a descriptor names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device.
    Device,
    /// Anything else.
    Other,
}

/// fstat(2), the kind only.
pub fn kind(fd: BorrowedFd<'_>) -> io::Result<FileKind> {
    // SAFETY: an all-zero `stat` is a valid value, and fstat(2) writes nothing beyond it.
    let mode = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check(libc::fstat(fd.as_raw_fd(), &mut stat).into())?;
        stat.st_mode & libc::S_IFMT
    };
    Ok(match mode {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFIFO => FileKind::Pipe,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFCHR => FileKind::Device,
        _ => FileKind::Other,
    })
}

/// Whether whoever started this process handed it an open descriptor of the same file: only such a one is not
/// close-on-exec, since everything that is opened here is.
pub fn was_handed_over(fd: BorrowedFd<'_>) -> bool {
    let identity = |number: RawFd| {
        // SAFETY: an all-zero `stat` is a valid value, and fstat(2) writes nothing beyond it.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(number, &mut stat) == 0).then_some((stat.st_dev, stat.st_ino))
        }
    };
    // SAFETY: fcntl(2) with F_GETFD takes no pointers.
    let stays = |number: RawFd| unsafe { libc::fcntl(number, libc::F_GETFD) } == 0;
    let Some(own) = identity(fd.as_raw_fd()) else { return false };
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.any(|number| stays(number) && identity(number) == Some(own))
}

/// isatty(3).
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: isatty(3) takes a number only.
    unsafe { libc::isatty(fd.as_raw_fd()) == 1 }
}

/// Makes the directory behind a descriptor the working directory.
pub fn fchdir(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fchdir(2) takes a number only.
    check(unsafe { libc::fchdir(fd.as_raw_fd()) }.into()).map(drop)
}

/// renameat2(2) that replaces nothing (`RENAME_NOREPLACE`). Not every C library has the call.
///
/// # Errors
/// `EEXIST` where the new name is taken, `EINVAL` where the file system has no such flag.
pub fn rename_to_new(
    from_dir: BorrowedFd<'_>,
    from: &CStr,
    to_dir: BorrowedFd<'_>,
    to: &CStr,
) -> io::Result<()> {
    const NO_REPLACE: libc::c_uint = 1;
    let (old, new) = (from_dir.as_raw_fd(), to_dir.as_raw_fd());
    // SAFETY: both names are NUL-terminated and live through the call.
    check(unsafe { libc::syscall(libc::SYS_renameat2, old, from.as_ptr(), new, to.as_ptr(), NO_REPLACE) })
        .map(drop)
}

/// Borrows one of the three standard descriptors.
pub fn standard(number: RawFd) -> BorrowedFd<'static> {
    debug_assert!((0..=2).contains(&number));
    // SAFETY: 0, 1 and 2 stay open for the whole life of the process: the runtime opens `/dev/null` in place
    // of a missing one and nothing here closes them.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Closes everything but `keep` (which need not be sorted). For a process that was just forked and wants
/// nothing of its parent's; whoever owned the closed descriptors must not use or drop them afterwards.
pub(crate) fn close_all_but(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut from = 0;
    for &fd in keep.iter() {
        close_between(from, fd - 1);
        from = fd + 1;
    }
    close_between(from, RawFd::MAX);
}

fn close_between(from: RawFd, to: RawFd) {
    if from > to {
        return;
    }
    // SAFETY: close_range(2) takes numbers only (Linux 5.9). The caller gives these descriptors up.
    if unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } == 0 {
        return;
    }
    for fd in from..=to.min(65_535) {
        // SAFETY: close(2) takes a number only; an unopened one is an error return.
        unsafe { libc::close(fd) };
    }
}

/// One descriptor to wait for; `fd` -1 is skipped by the kernel.
pub type PollFd = libc::pollfd;

/// ppoll(2): waits until a descriptor is ready, a signal outside `mask` arrives (`Interrupted`) or `timeout`
/// passes (`Ok(0)`).
pub fn ppoll(fds: &mut [PollFd], timeout: Option<Duration>, mask: &SignalSet) -> io::Result<usize> {
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(1 << 40).cast_signed(),
        tv_nsec: t.subsec_nanos().into(),
    });
    let spec_ptr = spec.as_ref().map_or(std::ptr::null(), |s| s as *const libc::timespec);
    // SAFETY: array, timespec and mask live through the call; the length is the array's own.
    let n = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, spec_ptr, mask.as_ptr()) };
    check(n.into()).map(|n| n as usize)
}
