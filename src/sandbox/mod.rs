//! The kernel's confinement: one file a mechanism, each prepared in the parent and applied in the child.
//!
//! *Prepared* may allocate, open files and fail with a sentence. *Applied* runs in a child that may share its
//! parent's memory: raw system calls only, no allocation, and a failure is an errno.

pub mod identity;
pub mod landlock;
pub mod loader;
pub mod mount;
pub mod probe;
pub mod raw;
pub mod seccomp;
#[cfg(test)]
mod together;
pub mod view;
