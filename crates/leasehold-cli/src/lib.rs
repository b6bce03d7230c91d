//! The command `leasehold`: runs programs under a lock, and shows who holds what. This crate is no
//! public API: it serves only the program, and leasehold's own tests and benchmarks.
#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("the command leasehold is for Unix: the library is for other systems, too");

mod args;
mod child;
mod commands;
mod connection;
mod detached;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod moment;
mod other_process;
mod process;
mod report;
mod runtime;
mod secrets;
mod signals;
mod stderr;
mod store_choice;
mod store_url;
mod table;
mod terminal;
mod user;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::args::parse;
use crate::child::guardian;
use crate::commands::completions;
use crate::report::{Failure, Verbosity};

/// Does what the command line of this process asks for.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mode = arguments.get(1).and_then(|mode| mode.to_str());
    let (verbosity, outcome) = match mode {
        Some(guardian::MODE) => (Verbosity::default(), guardian::main(&arguments[2..])),
        Some(completions::MODE) => (Verbosity::default(), completions::complete(&arguments[2..])),
        Some(detached::MODE) => (Verbosity::default(), detached::main()),
        Some(_) | None => match parse::parse(&arguments) {
            Ok(command) => commands::execute(&command),
            Err(outcome) => (Verbosity::default(), outcome),
        },
    };
    outcome.as_ref().err().inspect(|failure| verbosity.failure(failure));
    stderr::finish();
    if let Some(death) = outcome.as_ref().err().and_then(Failure::death) {
        death.die();
    }
    ExitCode::from(outcome.unwrap_or_else(|failure| failure.exit))
}
