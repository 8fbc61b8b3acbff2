//! A page at an address that nobody can guess: the one path that an exec-once filter lets through.
//!
//! The filter compares the *address* of the path with this page's. The run that is started by that one exec has a
//! new address space, so it can neither find the page nor, as long as it does not know the number, put
//! one there. What it must not learn is the number: it stands in the guard's own `/proc/PID/maps` until the
//! page is dropped, which Landlock, a PID namespace or a non-dumpable guard hides.

use std::ffi::CStr;

use super::{Errno, check};

/// Three pages: the text starts anywhere in the first one and is at most `PATH_MAX` long.
const LENGTH: usize = 3 * 4096;
/// The highest user address of every architecture with 47 bits, less some room for the stack.
const TOP: u64 = 0x7fff_0000_0000;
/// Below it programs without ASLR and the kernel's low reserve live.
const BOTTOM: u64 = 0x1_0000_0000;

/// A path (or the empty string) at a secret address. Unmapped when dropped.
#[derive(Debug)]
pub struct SecretPath {
    base: usize,
    text: usize,
}

impl SecretPath {
    /// Maps the page and writes `text` to it, at a random offset: 47 bits in all, because a run can try addresses
    /// (a wrong one is refused by the filter, the right one by the kernel with `EFAULT`).
    ///
    /// # Errors
    /// `ENAMETOOLONG` for more than 4096 bytes, else the errno of getrandom(2) or mmap(2).
    pub fn new(text: &CStr) -> Result<Self, Errno> {
        let bytes = text.to_bytes_with_nul();
        if bytes.len() > 4096 {
            return Err(libc::ENAMETOOLONG);
        }
        let mut last = libc::ENOMEM;
        for attempt in 0..32 {
            let random = random_u64()?;
            // After some failures, aim for the 39 bits of small address spaces (aarch64).
            let top = if attempt < 16 { TOP } else { 0x7f_0000_0000 };
            let wanted = (BOTTOM + (random >> 12) % (top - BOTTOM)) & !0xfff;
            match map_at(usize::try_from(wanted).map_err(|_| libc::EINVAL)?) {
                Ok(base) => {
                    let text = base + usize::try_from(random & 0xfff).map_err(|_| libc::EINVAL)?;
                    // SAFETY: the mapping is writable, ours alone, and 4095 + 4096 < LENGTH bytes.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), text as *mut u8, bytes.len()) };
                    return Ok(SecretPath { base, text });
                }
                Err(errno) => last = errno,
            }
        }
        Err(last)
    }

    /// The address that the filter compares with.
    pub fn address(&self) -> u64 {
        self.text as u64
    }

    /// The text, to hand to execve(2) or execveat(2).
    pub fn as_ptr(&self) -> *const libc::c_char {
        self.text as *const libc::c_char
    }
}

impl Drop for SecretPath {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and nothing refers to it any more.
        unsafe { libc::munmap(self.base as *mut libc::c_void, LENGTH) };
    }
}

/// A fresh mapping exactly there, or `EEXIST`.
fn map_at(address: usize) -> Result<usize, Errno> {
    // SAFETY: MAP_FIXED_NOREPLACE never touches an existing mapping.
    let ret = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            LENGTH,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if ret == libc::MAP_FAILED {
        // SAFETY: the location of this thread's errno is always valid.
        return Err(unsafe { *libc::__errno_location() });
    }
    if ret as usize != address {
        // SAFETY: a kernel before 4.17 took the flag for a hint; the mapping is ours.
        unsafe { libc::munmap(ret, LENGTH) };
        return Err(libc::EEXIST);
    }
    Ok(address)
}

/// Eight bytes from the kernel.
pub fn random_u64() -> Result<u64, Errno> {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer is eight bytes.
    let got = check(unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), 8_usize, 0_u32) })?;
    if got == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(libc::EAGAIN) }
}
