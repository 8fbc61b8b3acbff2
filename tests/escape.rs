//! Attacks from inside a run, through the real binary. The kernel is the oracle, and each attack is also made under
//! the `host` profile, where it has to succeed: so that a test can fail.

pub mod scene;

mod ambient;
mod exec;
mod files;
mod guard;
mod hints;
mod identity;
mod layers;
mod network;
mod ordinary;
mod selftest;
mod sockets;
mod syscalls;
mod workspace;
