//! Mounts as descriptors: trees are cloned and attached by descriptor, so that no path is resolved twice and no link
//! is followed (open_tree, move_mount: 5.2; openat2: 5.6; mount_setattr: 5.12). Numbers are the same everywhere.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{Errno, check};

const OPEN_TREE: libc::c_long = 428;
const MOVE_MOUNT: libc::c_long = 429;
const OPENAT2: libc::c_long = 437;
const MOUNT_SETATTR: libc::c_long = 442;

/// `OPEN_TREE_CLONE`.
const CLONE: u32 = 1;
/// `AT_RECURSIVE`.
const RECURSIVE: u32 = 0x8000;
const EMPTY_PATH: u32 = libc::AT_EMPTY_PATH as u32;
/// `MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH`.
const BY_DESCRIPTORS: u32 = 0x04 | 0x40;
/// `RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS`.
const NO_LINKS: u64 = 0x02 | 0x04;

/// `MOUNT_ATTR_RDONLY`.
pub const READ_ONLY: u64 = 0x1;
/// `MOUNT_ATTR_NOSUID`.
pub const NO_SUID: u64 = 0x2;

/// `struct open_how`.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

fn owned(ret: libc::c_long) -> Result<OwnedFd, Errno> {
    let fd = RawFd::try_from(ret).map_err(|_| libc::EBADF)?;
    // SAFETY: a descriptor that the kernel has just made.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a canonical path without any right to its content; a link anywhere in it is `ELOOP`. Raw calls only.
///
/// # Errors
/// The errno of openat2(2), or of openat(2) where a filter around this process hides the first.
pub fn open_canonical(path: &CStr) -> Result<OwnedFd, Errno> {
    let how = OpenHow { flags: (libc::O_PATH | libc::O_CLOEXEC) as u64, mode: 0, resolve: NO_LINKS };
    // SAFETY: both structures live through the call, and the size is theirs.
    let opened = check(unsafe {
        libc::syscall(OPENAT2, libc::AT_FDCWD, path.as_ptr(), &raw const how, size_of::<OpenHow>())
    });
    match opened {
        Err(libc::ENOSYS) => open_step_by_step(path.to_bytes()),
        opened => owned(opened?),
    }
}

/// The same without openat2(2): every component by itself.
fn open_step_by_step(path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut at = super::open_path(if path.starts_with(b"/") { c"/" } else { c"." })?;
    for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
        // NAME_MAX is 255.
        let mut name = [0_u8; 256];
        name.get_mut(..part.len())
            .filter(|_| part.len() < 256)
            .ok_or(libc::ENAMETOOLONG)?
            .copy_from_slice(part);
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: `name` ends with a NUL, since it is longer than `part`, and lives through the call.
        let next = unsafe { libc::syscall(libc::SYS_openat, at.as_raw_fd(), name.as_ptr(), flags, 0) };
        at = owned(check(next)?)?;
        if super::mode_of(at.as_fd())? & libc::S_IFMT == libc::S_IFLNK {
            return Err(libc::ELOOP);
        }
    }
    Ok(at)
}

/// A detached copy of the mount at `at`, and of what is mounted beneath it, from there down.
///
/// # Errors
/// The errno of open_tree(2): `EPERM` without `CAP_SYS_ADMIN` over the mount namespace.
pub fn clone_tree(at: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = CLONE | RECURSIVE | EMPTY_PATH | libc::O_CLOEXEC as u32;
    // SAFETY: an empty C string.
    owned(check(unsafe { libc::syscall(OPEN_TREE, at.as_raw_fd(), c"".as_ptr(), flags) })?)
}

/// Attaches a detached tree over `target`.
///
/// # Errors
/// The errno of move_mount(2).
pub fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    let (empty, by) = (c"".as_ptr(), BY_DESCRIPTORS);
    // SAFETY: empty C strings.
    check(unsafe { libc::syscall(MOVE_MOUNT, tree.as_raw_fd(), empty, target.as_raw_fd(), empty, by) })?;
    Ok(())
}

/// Sets attributes on the mount that `tree` names and on all beneath it.
///
/// # Errors
/// The errno of mount_setattr(2).
pub fn set_attributes(tree: BorrowedFd<'_>, attributes: u64) -> Result<(), Errno> {
    let attr = MountAttr { set: attributes, clear: 0, propagation: 0, userns_fd: 0 };
    let flags = RECURSIVE | EMPTY_PATH;
    // SAFETY: the structure lives through the call, and the size is its own.
    check(unsafe {
        let size = size_of::<MountAttr>();
        libc::syscall(MOUNT_SETATTR, tree.as_raw_fd(), c"".as_ptr(), flags, &raw const attr, size)
    })?;
    Ok(())
}

/// Cuts every mount of this namespace off from all others.
///
/// # Errors
/// The errno of mount(2).
pub fn make_private() -> Result<(), Errno> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: C strings and null pointers, as mount(2) wants them for a change of propagation.
    check(unsafe {
        libc::syscall(libc::SYS_mount, c"none".as_ptr(), c"/".as_ptr(), 0_usize, flags, 0_usize)
    })?;
    Ok(())
}

/// Mounts a new file system, without set-user-id, and without devices.
///
/// # Errors
/// The errno of mount(2).
pub fn mount_new(kind: &CStr, at: &CStr, flags: libc::c_ulong, data: &CStr) -> Result<(), Errno> {
    let flags = flags | libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: C strings.
    check(unsafe {
        libc::syscall(libc::SYS_mount, kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, data.as_ptr())
    })?;
    Ok(())
}

/// Takes a mount off its path.
///
/// # Errors
/// The errno of umount2(2).
pub fn unmount(at: &CStr) -> Result<(), Errno> {
    // SAFETY: a C string and a number.
    check(unsafe { libc::syscall(libc::SYS_umount2, at.as_ptr(), libc::MNT_DETACH) }).map(|_| ())
}

/// Makes a directory.
///
/// # Errors
/// The errno of mkdirat(2).
pub fn make_dir(path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: a C string.
    check(unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path.as_ptr(), mode) })?;
    Ok(())
}

/// Makes an empty file of mode 000 (or leaves the one that is there).
///
/// # Errors
/// The errno of openat(2).
pub fn make_file(path: &CStr) -> Result<(), Errno> {
    super::open(path, libc::O_CREAT | libc::O_RDONLY | libc::O_NOFOLLOW).map(|_| ())
}

/// Removes a file, or an empty directory.
///
/// # Errors
/// The errno of unlinkat(2).
pub fn remove(path: &CStr, dir: bool) -> Result<(), Errno> {
    let flags = if dir { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: a C string.
    check(unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path.as_ptr(), flags) })?;
    Ok(())
}

/// Sets the file mode creation mask and returns the old one.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: a number; it cannot fail.
    unsafe { libc::umask(mask) }
}

/// Makes a symbolic link.
///
/// # Errors
/// The errno of symlinkat(2).
pub fn make_link(to: &CStr, path: &CStr) -> Result<(), Errno> {
    // SAFETY: C strings.
    check(unsafe { libc::syscall(libc::SYS_symlinkat, to.as_ptr(), libc::AT_FDCWD, path.as_ptr()) })?;
    Ok(())
}

/// Makes a mount point the root of this mount namespace, takes the old root off, and ends in `/`.
///
/// # Errors
/// The errno of chdir(2), pivot_root(2) or umount2(2): `EINVAL` where the old root is no mount point (chroot).
pub fn enter_root(path: &CStr) -> Result<(), Errno> {
    let here = c".".as_ptr();
    // SAFETY: C strings; pivot_root(".", ".") stacks the old root on the new one (pivot_root(2), notes).
    unsafe {
        check(libc::syscall(libc::SYS_chdir, path.as_ptr()))?;
        check(libc::syscall(libc::SYS_pivot_root, here, here))?;
        check(libc::syscall(libc::SYS_umount2, here, libc::MNT_DETACH))?;
        check(libc::syscall(libc::SYS_chdir, c"/".as_ptr()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::attack::{Scratch, c_path};
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn both_ways_open_the_same_and_follow_no_link() {
        let scratch = Scratch::new("open-canonical");
        let at = |name: &str| scratch.0.join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/f"), "").unwrap();
        std::os::unix::fs::symlink("a", at("l")).unwrap();
        for by_steps in [false, true] {
            let open = |path: &CStr| {
                if by_steps { open_step_by_step(path.to_bytes()) } else { open_canonical(path) }
            };
            for name in ["a/b/f", "a/b", "a/b/"] {
                let opened = std::fs::File::from(open(&c_path(&at(name))).unwrap());
                assert_eq!(opened.metadata().unwrap().ino(), at(name).metadata().unwrap().ino(), "{name}");
            }
            for (name, errno) in
                [("l/b", libc::ELOOP), ("l", libc::ELOOP), ("a/x", libc::ENOENT), ("a/b/f/x", libc::ENOTDIR)]
            {
                assert_eq!(open(&c_path(&at(name))).unwrap_err(), errno, "{name}");
            }
            assert_eq!(open(&c_path(&at(&"n".repeat(256)))).unwrap_err(), libc::ENAMETOOLONG);
        }
    }
}
