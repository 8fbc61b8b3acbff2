//! Users, groups, capabilities and keyrings of the calling process. Raw calls: the C library's own functions would
//! signal every thread of a process whose memory a child may share.

use super::{Errno, check, prctl};

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`, twice (capget(2), version 3).
type CapData = [[u32; 3]; 2];

/// `_LINUX_CAPABILITY_VERSION_3`.
const CAP_VERSION: u32 = 0x2008_0522;
/// `KEYCTL_JOIN_SESSION_KEYRING`.
const JOIN_SESSION_KEYRING: libc::c_ulong = 1;

/// Joins a new, empty session keyring.
///
/// # Errors
/// The errno of keyctl(2).
pub fn new_session_keyring() -> Result<(), Errno> {
    // SAFETY: a null name asks for an anonymous keyring.
    check(unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, 0_usize) })?;
    Ok(())
}

/// Empties the ambient capability set.
///
/// # Errors
/// The errno of prctl(2).
pub fn clear_ambient() -> Result<(), Errno> {
    // PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL.
    prctl(47, 4, 0).map(|_| ())
}

/// Keeps others of the user whom this process has become from tracing it and reading its memory, whatever the sysctl
/// `fs.suid_dumpable` made of the change.
///
/// # Errors
/// The errno of prctl(2).
pub fn not_dumpable() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 0, 0).map(|_| ())
}

/// Empties the bounding set.
///
/// # Errors
/// `EPERM` without `CAP_SETPCAP`.
pub fn drop_bounding_set() -> Result<(), Errno> {
    for capability in 0..64 {
        match prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            // The first number that this kernel does not know.
            Err(libc::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Whether a capability of the bounding set is left. `EINVAL` is the first number that this kernel does not know.
pub fn bounding_set_left() -> bool {
    let read = |capability| prctl(libc::PR_CAPBSET_READ, capability, 0);
    (0..64).map(read).take_while(|answer| *answer != Err(libc::EINVAL)).any(|answer| answer != Ok(0))
}

/// Makes uid 0 an ordinary number for exec and locks that, without capabilities kept or raised.
///
/// # Errors
/// `EPERM` without `CAP_SETPCAP`.
pub fn lock_securebits() -> Result<(), Errno> {
    // NOROOT, NOROOT_LOCKED, NO_SETUID_FIXUP_LOCKED, KEEP_CAPS_LOCKED, NO_CAP_AMBIENT_RAISE and its lock.
    prctl(libc::PR_SET_SECUREBITS, 0x01 | 0x02 | 0x08 | 0x20 | 0x40 | 0x80, 0).map(|_| ())
}

/// Leaves all supplementary groups.
///
/// # Errors
/// The errno of setgroups(2).
pub fn no_groups() -> Result<(), Errno> {
    // SAFETY: no groups, no pointer.
    check(unsafe { libc::syscall(libc::SYS_setgroups, 0_usize, 0_usize) })?;
    Ok(())
}

/// Sets all three user or group numbers.
///
/// # Errors
/// The errno of setresgid(2): `EINVAL` for a number that the user namespace does not map.
pub fn set_gid(gid: u32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    Ok(())
}

/// Sets all three user numbers.
///
/// # Errors
/// The errno of setresuid(2): `EINVAL` for a number that the user namespace does not map.
pub fn set_uid(uid: u32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })?;
    Ok(())
}

/// Gives up every capability of the effective, permitted and inheritable sets.
///
/// # Errors
/// The errno of capset(2).
pub fn no_capabilities() -> Result<(), Errno> {
    let header = CapHeader { version: CAP_VERSION, pid: 0 };
    let data: CapData = [[0; 3]; 2];
    // SAFETY: both structures live through the call and have the layout of version 3.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const data) })?;
    Ok(())
}

/// The effective, permitted and inheritable sets, as bits by capability number.
///
/// # Errors
/// The errno of capget(2).
pub fn capabilities() -> Result<[u64; 3], Errno> {
    let mut header = CapHeader { version: CAP_VERSION, pid: 0 };
    let mut data: CapData = [[0; 3]; 2];
    // SAFETY: both structures live through the call and have the layout of version 3.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut data) })?;
    let [low, high] = data;
    let set = |n: usize| u64::from(low[n]) | u64::from(high[n]) << 32;
    Ok([set(0), set(1), set(2)])
}

/// Real, effective and saved user, then group.
///
/// # Errors
/// The errno of getresuid(2).
pub fn ids() -> Result<([u32; 3], [u32; 3]), Errno> {
    let (mut users, mut groups) = ([0_u32; 3], [0_u32; 3]);
    let [a, b, c] = &mut users;
    // SAFETY: three places for three numbers.
    check(unsafe { libc::syscall(libc::SYS_getresuid, &raw mut *a, &raw mut *b, &raw mut *c) })?;
    let [a, b, c] = &mut groups;
    // SAFETY: three places for three numbers.
    check(unsafe { libc::syscall(libc::SYS_getresgid, &raw mut *a, &raw mut *b, &raw mut *c) })?;
    Ok((users, groups))
}

/// How many supplementary groups there are.
///
/// # Errors
/// The errno of getgroups(2).
pub fn group_count() -> Result<i64, Errno> {
    // SAFETY: with no room given, only the number is returned.
    check(unsafe { libc::syscall(libc::SYS_getgroups, 0_usize, 0_usize) })
}
