//! A flash sale by eight processes at once, in five ways: with a lock, with a lock and batches,
//! with one atomic command, with compare-and-set, and, as the counter-example, without any of
//! these.
//!
//! `docs/do-you-need-a-lock.md` discusses its output.
#![forbid(unsafe_code)]

mod check;
mod office;
mod options;
mod outcome;
mod sale;
mod shelf;
mod ways;
mod worker;

use std::process::ExitCode;

use crate::outcome::Outcome;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("flash-sale: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the program, and returns whether all checks passed.
fn run() -> Outcome<bool> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == worker::COMMAND) {
        arguments.remove(0);
        worker::main(&arguments)?;
        return Ok(true);
    }
    match options::Options::parse(&arguments)? {
        Some(options) => office::run(&options),
        None => {
            print!("{}", options::HELP);
            Ok(true)
        }
    }
}
