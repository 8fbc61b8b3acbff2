//! The environment guardexec itself was started with: read once, then overwritten, so that nothing can find it
//! in `/proc/PID/environ` of guardexec (root reads that file whatever `PR_SET_DUMPABLE` says).
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::{Ordering, compiler_fence};

unsafe extern "C" {
    static mut environ: *mut *mut libc::c_char;
}

fn pointers() -> Vec<*mut libc::c_char> {
    let mut found = Vec::new();
    // SAFETY: `environ` is null or a null-terminated array of valid pointers (environ(7)); the callers run
    // before any second thread exists, so nothing changes it meanwhile. No reference to the static is made.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            found.push(*at);
            at = at.add(1);
        }
    }
    found
}

/// Copies every entry of the environment, raw and in order: also those without `=`, duplicates and
/// bytes that are not UTF-8.
pub fn take_environment() -> Vec<Vec<u8>> {
    pointers()
        .into_iter()
        .map(|entry| {
            // SAFETY: every pointer of `environ` names a NUL-terminated string (environ(7)).
            unsafe { CStr::from_ptr(entry) }.to_bytes().to_vec()
        })
        .collect()
}

/// Overwrites the strings of the initial environment with zero bytes. Call it first thing in `main`, after
/// [`take_environment`] and before any thread or `set_var`: from then on `std::env::var` finds nothing.
/// Returns how many bytes were overwritten.
pub fn hide_initial_environment() -> usize {
    let mut wiped = 0;
    for entry in pointers() {
        // SAFETY: the string is NUL-terminated and lies in the process's own writable stack (or heap), where
        // the kernel or libc put it; nothing else runs, so no one reads it while it is written.
        unsafe {
            let length = CStr::from_ptr(entry).count_bytes();
            std::ptr::write_bytes(entry, 0, length);
            wiped += length;
        }
    }
    compiler_fence(Ordering::SeqCst);
    wiped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Run by the test below in a process of its own: wiping would take the environment from the other tests.
    #[test]
    fn wiped_when_asked() {
        if std::env::var_os("GUARDEXEC_TEST_SECRET").is_none() {
            return;
        }
        let entries = take_environment();
        assert!(entries.contains(&b"GUARDEXEC_TEST_SECRET=hunter2".to_vec()));
        assert!(hide_initial_environment() > 0);
        assert_eq!(std::env::var_os("GUARDEXEC_TEST_SECRET"), None);
        let seen = std::fs::read("/proc/self/environ").unwrap();
        assert!(seen.iter().all(|&b| b == 0), "{}", String::from_utf8_lossy(&seen));
        std::process::exit(42);
    }

    #[test]
    fn nothing_is_left_in_proc_after_wiping() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sys::environ::tests::wiped_when_asked"])
            .env("GUARDEXEC_TEST_SECRET", "hunter2")
            .output()
            .unwrap();
        assert_eq!(status.status.code(), Some(42), "{}", String::from_utf8_lossy(&status.stdout));
    }
}
