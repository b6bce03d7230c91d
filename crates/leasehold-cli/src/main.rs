//! The program `leasehold`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_cli::main()
}
