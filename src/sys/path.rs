//! Paths, without the C library's allocator.
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

#[cfg(test)]
mod tests {
    use super::*;

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
