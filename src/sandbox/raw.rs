//! The system calls of confinement, each as a safe function: numbers and structures, no policy.
//!
//! Everything that a child calls between its creation and its exec is here: no function allocates, takes a
//! lock or touches anything but its arguments and `errno`.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

#[cfg(test)]
pub mod attack;

pub mod attempts;
pub mod credentials;
pub mod mounts;
pub mod notify;
pub mod process;
pub mod secret;

/// An `errno` value.
pub type Errno = i32;

/// Turns the return value of a system call into a result.
pub(crate) fn check(ret: libc::c_long) -> Result<libc::c_long, Errno> {
    if ret >= 0 {
        return Ok(ret);
    }
    // SAFETY: the location of this thread's errno is always valid.
    Err(unsafe { *libc::__errno_location() })
}

/// Landlock system calls have the same numbers on every architecture (landlock_create_ruleset(2), 5.13).
const LANDLOCK_CREATE_RULESET: libc::c_long = 444;
const LANDLOCK_ADD_RULE: libc::c_long = 445;
const LANDLOCK_RESTRICT_SELF: libc::c_long = 446;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const CREATE_RULESET_VERSION: libc::c_ulong = 1;
/// `LANDLOCK_RULE_PATH_BENEATH`.
const RULE_PATH_BENEATH: libc::c_ulong = 1;

/// `struct landlock_ruleset_attr` up to ABI 6.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct RulesetAttr {
    /// Handled file system rights.
    pub fs: u64,
    /// Handled TCP rights (ABI 4).
    pub net: u64,
    /// Scopes (ABI 6).
    pub scoped: u64,
}

/// `struct landlock_path_beneath_attr`, which is packed.
#[repr(C, packed)]
struct PathBeneathAttr {
    allowed: u64,
    parent_fd: i32,
}

/// The ABI version of this kernel's Landlock.
///
/// # Errors
/// `ENOSYS` where it is not built in or filtered, `EOPNOTSUPP` where it was not enabled at boot.
pub fn landlock_version() -> Result<u32, Errno> {
    let null = std::ptr::null::<RulesetAttr>();
    // SAFETY: with the version flag the kernel reads no structure.
    let ret = unsafe { libc::syscall(LANDLOCK_CREATE_RULESET, null, 0_usize, CREATE_RULESET_VERSION) };
    check(ret).map(|version| u32::try_from(version).unwrap_or(u32::MAX))
}

/// Whether a program can be executed by its descriptor here. Inside a run of another guardexec that has a list of programs it
/// cannot: there is no execveat(2).
pub fn can_execute_by_descriptor() -> bool {
    let null = std::ptr::null::<*const libc::c_char>();
    let (none, flags) = (-1, libc::AT_EMPTY_PATH);
    // SAFETY: a C string and no arguments; there is no such descriptor, so nothing is ever executed.
    let ret = unsafe { libc::syscall(libc::SYS_execveat, none, c"".as_ptr(), null, null, flags) };
    check(ret) == Err(libc::EBADF)
}

/// Makes a ruleset; `size` is how much of the structure this kernel's ABI knows (8, 16 or 24 bytes).
///
/// # Errors
/// The errno of landlock_create_ruleset(2).
pub fn landlock_create(attr: &RulesetAttr, size: usize) -> Result<OwnedFd, Errno> {
    let size = size.min(size_of::<RulesetAttr>());
    // SAFETY: `attr` is valid for `size` bytes.
    let fd = check(unsafe { libc::syscall(LANDLOCK_CREATE_RULESET, std::ptr::from_ref(attr), size, 0_u32) })?;
    let fd = RawFd::try_from(fd).map_err(|_| libc::EBADF)?;
    // SAFETY: the kernel has just made this descriptor (close-on-exec) and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Allows `access` on what `parent` names, and beneath it if it is a directory.
///
/// # Errors
/// The errno of landlock_add_rule(2): `EINVAL` for a right that is not handled or not for files.
pub fn landlock_add(ruleset: RawFd, parent: BorrowedFd<'_>, access: u64) -> Result<(), Errno> {
    let attr = PathBeneathAttr { allowed: access, parent_fd: parent.as_raw_fd() };
    // SAFETY: `attr` lives through the call and has the layout the kernel expects.
    check(unsafe {
        libc::syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, std::ptr::from_ref(&attr), 0_u32)
    })?;
    Ok(())
}

/// Confines the calling thread for ever.
///
/// # Errors
/// `EPERM` without no-new-privileges, `E2BIG` at the seventeenth layer.
pub fn landlock_restrict(ruleset: RawFd) -> Result<(), Errno> {
    // SAFETY: no pointers.
    check(unsafe { libc::syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0_u32) })?;
    Ok(())
}

/// Opens `path` without any right to its content (`O_PATH`), following links.
///
/// # Errors
/// The errno of openat(2).
pub fn open_path(path: &CStr) -> Result<OwnedFd, Errno> {
    open(path, libc::O_PATH | libc::O_CLOEXEC)
}

/// Opens `path` with `flags`; a file made by it has mode 000.
///
/// # Errors
/// The errno of openat(2).
pub fn open(path: &CStr, flags: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: `path` is a C string.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC, 0_u32)
    })?;
    let fd = RawFd::try_from(fd).map_err(|_| libc::EBADF)?;
    // SAFETY: a descriptor that the kernel has just made.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The mode (type and permissions) of what a descriptor names.
///
/// # Errors
/// The errno of fstat(2).
pub fn mode_of(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    // SAFETY: an all-zero stat structure is valid, and the kernel fills it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` outlives the call.
    check(libc::c_long::from(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) }))?;
    Ok(stat.st_mode)
}

/// Whether a mode is a directory's.
pub fn is_dir(mode: u32) -> bool {
    mode & libc::S_IFMT == libc::S_IFDIR
}

/// Enters a directory by its path.
///
/// # Errors
/// The errno of chdir(2).
pub fn change_directory(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path is NUL-terminated and lives through the call.
    check(unsafe { libc::syscall(libc::SYS_chdir, path.as_ptr()) }).map(|_| ())
}

/// Device and inode of what a path names, links followed.
///
/// # Errors
/// The errno of statx(2).
pub fn identity_of(path: &CStr) -> Result<(u64, u64), Errno> {
    // SAFETY: an all-zero statx is valid, the kernel writes one; the path is NUL-terminated.
    let found = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let mask = libc::STATX_INO;
        check(libc::syscall(libc::SYS_statx, libc::AT_FDCWD, path.as_ptr(), 0, mask, &raw mut found))?;
        found
    };
    Ok((libc::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
}

/// Makes `fd` standard input as well, with blocking reads.
///
/// # Errors
/// The errno of dup3(2) or fcntl(2).
pub fn become_stdin(fd: &OwnedFd) -> Result<(), Errno> {
    let number = fd.as_raw_fd();
    // SAFETY: both take numbers only.
    unsafe {
        check(libc::syscall(libc::SYS_fcntl, number, libc::F_SETFL, 0))?;
        check(libc::syscall(libc::SYS_dup3, number, 0, 0)).map(|_| ())
    }
}

/// Gives up for ever that an exec can raise privileges (prctl(2), `PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// The errno of prctl(2).
pub fn no_new_privs() -> Result<(), Errno> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map(|_| ())
}

/// Whether that is so.
pub fn has_no_new_privs() -> bool {
    prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0) == Ok(1)
}

/// The seccomp mode of the calling thread: 0 none, 2 a filter.
///
/// # Errors
/// The errno of prctl(2).
pub fn seccomp_mode() -> Result<i64, Errno> {
    prctl(libc::PR_GET_SECCOMP, 0, 0)
}

/// Makes an internet socket and drops it: what a filter without sockets refuses with `EACCES`.
///
/// # Errors
/// The errno of socket(2).
pub fn make_socket() -> Result<(), Errno> {
    // SAFETY: numbers only.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
    })?;
    let fd = RawFd::try_from(fd).map_err(|_| libc::EBADF)?;
    // SAFETY: a descriptor that the kernel has just made.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// prctl(2) with an option that takes numbers only.
///
/// # Errors
/// Its errno.
pub(crate) fn prctl(option: i32, second: libc::c_ulong, third: libc::c_ulong) -> Result<i64, Errno> {
    // SAFETY: every option used in this module takes plain numbers.
    check(unsafe { libc::syscall(libc::SYS_prctl, option, second, third, 0_usize, 0_usize) })
}

/// `SECCOMP_SET_MODE_FILTER`.
const SET_MODE_FILTER: libc::c_ulong = 1;
/// `SECCOMP_GET_ACTION_AVAIL` (4.14).
const GET_ACTION_AVAIL: libc::c_ulong = 2;
/// `SECCOMP_RET_ERRNO`.
const RET_ERRNO: u32 = 0x0005_0000;
/// `SECCOMP_FILTER_FLAG_SPEC_ALLOW`: the filter is no reason to slow the run down with speculation barriers.
const FLAG_SPEC_ALLOW: libc::c_ulong = 4;

/// Whether this kernel has system call filters that refuse.
///
/// # Errors
/// The errno of seccomp(2): `ENOSYS` or `EINVAL` where it is not built in, or something hides it.
pub fn seccomp_available() -> Result<(), Errno> {
    let action = RET_ERRNO;
    // SAFETY: the kernel reads four bytes that live through the call.
    check(unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0_u32, &raw const action) }).map(|_| ())
}

/// Installs a filter on the calling thread.
///
/// # Errors
/// `EACCES` without no-new-privileges, `EINVAL` for a bad program.
pub fn seccomp_install(program: &[libc::sock_filter]) -> Result<(), Errno> {
    let len = u16::try_from(program.len()).map_err(|_| libc::EINVAL)?;
    let prog = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `prog` points to `len` instructions that live through the call; the kernel only reads them.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, FLAG_SPEC_ALLOW, std::ptr::from_ref(&prog))
    })
    .map(|_| ())
}
