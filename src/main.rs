//! The `guardexec` command: read the surroundings, hand over to the library, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(guardexec::cli::main())
}
