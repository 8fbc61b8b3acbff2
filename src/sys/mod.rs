//! Leaf: safe wrappers over system calls. Nearly all `unsafe` of the program is in this room, every block with
//! its reason. Nothing here knows of policies, runs or results.

pub mod account;
pub mod arena;
pub mod clock;
pub mod environ;
pub mod fd;
mod hex;
pub mod lock;
pub mod machine;
pub mod path;
pub mod patient;
pub mod process;
pub mod signal;
#[cfg(test)]
pub(crate) mod swapping;
pub mod text;

pub use environ::{hide_initial_environment, take_environment};
pub use hex::hex;
pub use path::canonical;

use std::io;

/// Turns a libc return value into a result: `-1` is `errno`.
pub(crate) fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret == -1 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}

/// The `errno` of an error that came from a system call; `EIO` for any other.
pub fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
