//! Paths, without the C library's allocator, and compared without taking them apart.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The path with every link resolved, as [`std::fs::canonicalize`] gives it. That one lets the C library allocate the
/// answer, for which musl maps and unmaps a page every time.
///
/// # Errors
/// realpath(3): something on the way is missing or cannot be searched.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut buffer = [0_u8; libc::PATH_MAX as usize];
    // SAFETY: `name` is NUL-terminated, and realpath(3) writes at most PATH_MAX bytes, a NUL among them.
    let found = unsafe { libc::realpath(name.as_ptr(), buffer.as_mut_ptr().cast()) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    let text = CStr::from_bytes_until_nul(&buffer).map_err(|_| io::Error::from_raw_os_error(libc::EIO))?;
    Ok(PathBuf::from(OsStr::from_bytes(text.to_bytes())))
}

/// A file's inode and the moment it was made, in nanoseconds: together no other file's, whatever it is called, wherever it is
/// mounted, and after the number was given to another file. `None` where its file system keeps no such moment, or the
/// kernel does not say it (statx(2), Linux 4.11).
pub fn birth(path: &Path) -> Option<(u64, i64)> {
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: an all-zero `statx` is valid; `name` is NUL-terminated, and the call writes nothing beyond the structure.
    let (failed, found) = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let mask = libc::STATX_INO | libc::STATX_BTIME;
        let failed =
            libc::syscall(libc::SYS_statx, libc::AT_FDCWD, name.as_ptr(), 0, mask, &raw mut found) != 0;
        (failed, found)
    };
    if failed || found.stx_mask & libc::STATX_BTIME == 0 {
        return None;
    }
    let made = found.stx_btime;
    Some((found.stx_ino, made.tv_sec.checked_mul(1_000_000_000)?.checked_add(i64::from(made.tv_nsec))?))
}

/// Whether `path` is `dir` or lies beneath it: [`Path::starts_with`], which takes both apart, at hundreds of instructions a
/// component. Here the bytes decide, unless they differ where the same could be written in another way (`//`, `/./`).
pub fn is_within(path: &Path, dir: &Path) -> bool {
    let (rest, more) = from_where_they_differ(path, dir);
    let end = dir.as_os_str().as_bytes().last();
    match (rest, more) {
        ([] | [b'/', ..], []) => true,
        (_, []) if end == Some(&b'/') => true,
        ([first, ..], []) if is_plain(first) && end.is_some_and(is_plain) => false,
        ([], more) if more.iter().any(is_plain) => false,
        ([one, ..], [other, ..]) if is_plain(one) && is_plain(other) => false,
        _ => path.starts_with(dir),
    }
}

/// Whether two paths have the same components, as `==` has it, in the same way.
pub fn is_same(one: &Path, other: &Path) -> bool {
    match from_where_they_differ(one, other) {
        ([], []) => true,
        ([], rest) | (rest, []) if rest.iter().any(is_plain) => false,
        ([a, ..], [b, ..]) if is_plain(a) && is_plain(b) => false,
        _ => one == other,
    }
}

/// What is left of each behind what they begin with together.
fn from_where_they_differ<'a>(one: &'a Path, other: &'a Path) -> (&'a [u8], &'a [u8]) {
    let (a, b) = (one.as_os_str().as_bytes(), other.as_os_str().as_bytes());
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (&a[same..], &b[same..])
}

/// Part of a component's name that no other way of writing the path leaves out.
fn is_plain(byte: &u8) -> bool {
    !matches!(byte, b'/' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comparing_bytes_is_comparing_components(
            one in "[/.a]{0,7}|/usr(/bin|//b|/\\./b|/lib64)?",
            other in "[/.a]{0,7}|/usr(/bin|//b|/\\./b|/lib|/)?",
        ) {
            let (one, other) = (Path::new(&one), Path::new(&other));
            prop_assert_eq!(is_within(one, other), one.starts_with(other));
            prop_assert_eq!(is_within(other, one), other.starts_with(one));
            prop_assert_eq!(is_same(one, other), one == other);
        }
    }

    #[test]
    fn a_birth_is_that_of_the_file_and_stays() {
        use std::os::unix::fs::MetadataExt as _;
        let path = std::env::temp_dir().join(format!("guardexec-birth-{}", std::process::id()));
        std::fs::write(&path, "a").unwrap();
        let first = birth(&path);
        std::fs::write(&path, "b").unwrap();
        let (meta, second) = (path.metadata().unwrap(), birth(&path));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(first, second);
        if let (Some((inode, made)), Ok(created)) = (first, meta.created()) {
            let since = created.duration_since(std::time::UNIX_EPOCH).unwrap();
            assert_eq!((inode, i128::from(made)), (meta.ino(), i128::try_from(since.as_nanos()).unwrap()));
        }
        assert_eq!(birth(&path), None);
    }

    #[test]
    fn it_agrees_with_the_standard_library() {
        for path in [
            "/",
            ".",
            "/proc/self/exe",
            "/usr/../usr/bin/.",
            "/bin",
            "/tmp/",
            "",
            "/none/such",
            "/etc/passwd/x",
        ] {
            let (ours, theirs) = (canonical(Path::new(path)), std::fs::canonicalize(path));
            assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{path}");
            let errno = |error: io::Error| error.raw_os_error();
            assert_eq!(ours.err().map(errno), theirs.err().map(errno), "{path}");
        }
        assert!(canonical(Path::new("/a\0b")).is_err());
    }
}
