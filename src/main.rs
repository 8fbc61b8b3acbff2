//! The `guardexec` command: hand over to the library, exit.

use std::process::ExitCode;

use guardexec::sys::arena::Arena;

#[global_allocator]
static MEMORY: Arena = Arena::new();

fn main() -> ExitCode {
    ExitCode::from(guardexec::cli::main())
}
