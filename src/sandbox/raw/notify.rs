//! Calls of a run that wait for the guard's answer (seccomp_unotify(2)), and what the guard sees of whoever made them.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{Errno, SET_MODE_FILTER, check};

/// `SECCOMP_FILTER_FLAG_SPEC_ALLOW`, `NEW_LISTENER` (5.0).
const LISTENING: libc::c_ulong = 4 | 8;
/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` (5.19): a call that was received is only cut short by death, so that no
/// signal handler makes the program repeat what has been done for it.
const WAIT_KILLABLE: libc::c_ulong = 32;

/// `SECCOMP_IOCTL_NOTIF_RECV`, `SEND`, and `ID_VALID` by its first number, which every kernel knows.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const ID_VALID: libc::c_ulong = 0x8008_2102;

/// `PIDFD_THREAD` (6.9).
const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
/// pidfd_getfd(2), 5.6.
const PIDFD_GETFD: libc::c_long = 438;

/// The longest address that the kernel takes (`struct sockaddr_storage`).
pub const ADDRESS: usize = 128;

/// A call that waits.
#[derive(Debug, Clone, Copy)]
pub struct Notice {
    /// Names it in the answer.
    pub id: u64,
    /// The thread, numbered as the receiver sees it; 0 where it does not.
    pub task: i32,
    /// The call's number.
    pub call: libc::c_long,
    /// Its arguments.
    pub args: [u64; 6],
}

fn owned(fd: libc::c_long) -> Result<OwnedFd, Errno> {
    let fd = RawFd::try_from(fd).map_err(|_| libc::EBADF)?;
    // SAFETY: every caller passes a descriptor that the kernel has just made, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Installs a filter on the calling thread and gives the descriptor where its notices arrive.
///
/// # Errors
/// `EBUSY` where a filter above has such a descriptor already, `EINVAL` where the kernel has no notices.
pub fn install_listening(program: &[libc::sock_filter]) -> Result<OwnedFd, Errno> {
    let len = u16::try_from(program.len()).map_err(|_| libc::EINVAL)?;
    let prog = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let install = |flags: libc::c_ulong| {
        // SAFETY: `prog` points to `len` instructions that live through the call; the kernel only reads them.
        check(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, std::ptr::from_ref(&prog)) })
    };
    let fd = match install(LISTENING | WAIT_KILLABLE) {
        Err(libc::EINVAL) => install(LISTENING)?,
        other => other?,
    };
    owned(fd)
}

/// Room for one descriptor beside a message: a header of two words and the number.
#[repr(C, align(8))]
struct Control([u8; 24]);

/// A message of one byte whose control data is `control`.
fn with_message<T>(control: &mut Control, call: impl FnOnce(*mut libc::msghdr) -> T) -> T {
    let mut byte = 0_u8;
    let mut piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: an all-zero header is valid; what it points to lives until the end of this function.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control.0).cast();
    header.msg_controllen = size_of::<Control>() as _;
    call(&raw mut header)
}

/// Sends a descriptor over a Unix socket.
///
/// # Errors
/// The errno of sendmsg(2).
pub fn hand_over(channel: RawFd, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut control = Control([0; 24]);
    with_message(&mut control, |header| {
        // SAFETY: the header and all that it points to live through the call. CMSG_FIRSTHDR and CMSG_DATA stay within
        // the control data, which has room for one header and one number.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(header);
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
            (*header).msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
            check(libc::syscall(libc::SYS_sendmsg, channel, header, libc::MSG_NOSIGNAL)).map(|_| ())
        }
    })
}

/// Takes the descriptor that [`hand_over`] sent.
///
/// # Errors
/// The errno of recvmsg(2); `EPIPE` where there is none.
pub fn take_over(channel: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut control = Control([0; 24]);
    with_message(&mut control, |header| {
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        // SAFETY: the header and all that it points to live through the call; CMSG_FIRSTHDR is null where the kernel
        // wrote no control data, and a message of ours carries one number.
        unsafe {
            check(libc::syscall(libc::SYS_recvmsg, channel.as_raw_fd(), header, flags))?;
            let first = libc::CMSG_FIRSTHDR(header);
            if first.is_null() || (*first).cmsg_type != libc::SCM_RIGHTS {
                return Err(libc::EPIPE);
            }
            owned(libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned().into())
        }
    })
}

/// Takes the next notice. Waits for one, so it is to be called when poll(2) has seen it.
///
/// # Errors
/// `ENOENT` where its caller died meanwhile.
pub fn receive(listener: BorrowedFd<'_>) -> Result<Notice, Errno> {
    let mut words = [0_u64; 10];
    // SAFETY: `struct seccomp_notif` is 80 bytes, which the kernel wants zeroed and fills.
    check(unsafe { libc::syscall(libc::SYS_ioctl, listener.as_raw_fd(), RECEIVE, words.as_mut_ptr()) })?;
    let [id, task, call, _address, args @ ..] = words;
    let half = |word: u64| {
        let bytes = word.to_ne_bytes();
        i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    Ok(Notice { id, task: half(task), call: half(call).into(), args })
}

/// Whether the call still waits: then its thread lives, and its number is nobody else's.
pub fn still_waits(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads eight bytes.
    check(unsafe { libc::syscall(libc::SYS_ioctl, listener.as_raw_fd(), ID_VALID, &raw const id) }).is_ok()
}

/// Whether a descriptor is one where notices arrive: it knows of no notice with a number that was never given.
pub fn is_listener(fd: BorrowedFd<'_>) -> bool {
    let never = 0_u64;
    // SAFETY: the kernel reads eight bytes.
    let asked = unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), ID_VALID, &raw const never) };
    check(asked) == Err(libc::ENOENT)
}

/// Makes the call return: 0, or an errno. Never lets the kernel make it, whose arguments may be others by now.
pub fn answer(listener: BorrowedFd<'_>, id: u64, result: Result<(), Errno>) {
    let error = result.map_or_else(|errno| -errno, |()| 0);
    // `struct seccomp_notif_resp`: id, value, error and flags.
    let words = [id, 0, u64::from_ne_bytes(halves(error))];
    // SAFETY: the kernel reads 24 bytes. A caller that is gone needs no answer.
    unsafe { libc::syscall(libc::SYS_ioctl, listener.as_raw_fd(), SEND, words.as_ptr()) };
}

fn halves(first: i32) -> [u8; 8] {
    let [a, b, c, d] = first.to_ne_bytes();
    [a, b, c, d, 0, 0, 0, 0]
}

/// Copies `into.len()` bytes of a thread's memory.
///
/// # Errors
/// `EFAULT` where that many are not there, `EPERM` where this process may not look.
pub fn read_memory(task: i32, address: u64, into: &mut [u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel writes at most the length of `into`, and checks the other address itself.
    let read = check(unsafe {
        let (local, remote) = (&raw const local, &raw const remote);
        libc::syscall(libc::SYS_process_vm_readv, task, local, 1_usize, remote, 1_usize, 0_usize)
    })?;
    if usize::try_from(read) == Ok(into.len()) { Ok(()) } else { Err(libc::EFAULT) }
}

/// A duplicate of a thread's descriptor, above the standard ones.
///
/// # Errors
/// `EBADF` where it has none of that number, `EPERM` where this process may not look, `ESRCH` where it cannot be found.
pub fn take_descriptor(task: i32, number: RawFd) -> Result<OwnedFd, Errno> {
    let pidfd = open_task(task)?;
    // SAFETY: numbers only.
    let fd = owned(check(unsafe { libc::syscall(PIDFD_GETFD, pidfd.as_raw_fd(), number, 0) })?)?;
    crate::sys::fd::above_stdio(fd).map_err(|e| e.raw_os_error().unwrap_or(libc::EBADF))
}

/// The thread itself where the kernel can name it (6.9), else its process.
fn open_task(task: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: numbers only.
    let open =
        |pid: i32, flags: libc::c_int| check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) });
    if let Ok(fd) = open(task, PIDFD_THREAD).or_else(|_| open(task, 0)) {
        return owned(fd);
    }
    let text = std::fs::read_to_string(format!("/proc/{task}/status")).map_err(|_| libc::ESRCH)?;
    let group = text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    let group: i32 = group.ok_or(libc::ESRCH)?;
    let fd = owned(open(group, 0)?)?;
    // That /proc may be another namespace's: the kernel confirms that the thread is of this process.
    // SAFETY: numbers only; signal 0 does nothing.
    check(unsafe { libc::syscall(libc::SYS_tgkill, group, task, 0) })?;
    Ok(fd)
}

/// The family and the type of a socket.
///
/// # Errors
/// `ENOTSOCK` for anything else.
pub fn socket_kind(fd: BorrowedFd<'_>) -> Result<(i32, i32), Errno> {
    let ask = |option: i32| {
        let mut value = 0_i32;
        let mut length = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes.
        check(unsafe {
            let (number, level) = (fd.as_raw_fd(), libc::SOL_SOCKET);
            libc::syscall(libc::SYS_getsockopt, number, level, option, &raw mut value, &raw mut length)
        })?;
        Ok::<i32, Errno>(value)
    };
    Ok((ask(libc::SO_DOMAIN)?, ask(libc::SO_TYPE)?))
}

/// The user that the other end of a Unix connection was when it connected.
///
/// # Errors
/// The errno of getsockopt(2).
pub fn peer_user(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    check(unsafe {
        let (number, level, option) = (fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::syscall(libc::SYS_getsockopt, number, level, option, &raw mut peer, &raw mut length)
    })?;
    Ok(peer.uid)
}

/// connect(2) with an address as bytes.
///
/// # Errors
/// Its errno.
pub fn connect(socket: RawFd, address: &[u8]) -> Result<(), Errno> {
    // SAFETY: the address lives through the call.
    check(unsafe { libc::syscall(libc::SYS_connect, socket, address.as_ptr(), address.len()) }).map(|_| ())
}

/// bind(2) with an address as bytes.
///
/// # Errors
/// Its errno.
pub fn bind(socket: RawFd, address: &[u8]) -> Result<(), Errno> {
    // SAFETY: the address lives through the call.
    check(unsafe { libc::syscall(libc::SYS_bind, socket, address.as_ptr(), address.len()) }).map(|_| ())
}
