//! The `guardexec` command: parse, call the library, exit.
fn main() {}
