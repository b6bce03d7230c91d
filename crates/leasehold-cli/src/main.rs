//! The command `leasehold`: runs programs under a lock, and shows who holds what.
#![forbid(unsafe_code)]

mod args;
mod doctor;
mod documents;
mod elect;
mod end_quarantine;
mod guarded;
mod guardian;
mod heard;
mod hold;
mod in_the_way;
mod limits;
mod list;
mod nested;
mod patience;
mod permits;
mod program;
mod rearranged;
mod report;
mod revoke;
mod roff;
mod run;
mod session;
mod show;
mod signals;
mod status_line;
mod store_choice;
mod table;
mod terminal;
mod usage;
mod wait;
mod whereabouts;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::args::Command;
use crate::guardian::exec;
use crate::report::{Failure, Outcome, STORE, Voice};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mode = arguments.get(1).and_then(|mode| mode.to_str());
    let (voice, outcome) = match mode {
        Some(guardian::MODE) => (Voice::usual(), guardian::main(&arguments[2..])),
        Some(exec::MODE) => (Voice::usual(), exec::main(&arguments[2..])),
        Some(_) | None => match usage::parse(&arguments) {
            Ok(command) => (command.voice(), execute(&command)),
            Err(outcome) => (Voice::usual(), outcome),
        },
    };
    let exit = outcome.unwrap_or_else(|failure| {
        voice.failure(&failure);
        if let Some(death) = failure.death() {
            death.die();
        }
        failure.exit
    });
    ExitCode::from(exit)
}

fn execute(command: &Command) -> Outcome {
    match command {
        Command::Completions { shell } => documents::completions(*shell),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Elect(args) => elect::elect(args),
        Command::EndQuarantine(args) => end_quarantine::end_quarantine(args),
        Command::Hold(args) => hold::hold(args),
        Command::Ls(args) => list::list(args),
        Command::Man { command } => documents::man(command.as_deref()),
        Command::Permits(args) => permits::permits(args),
        Command::Revoke(args) => revoke::revoke(args),
        Command::Run(args) => run::run(args),
        Command::Show(args) => show::show(args),
        Command::Wait(args) => wait::wait(args),
        Command::Where(args) => whereabouts::print_choice(args),
    }
}

/// Runs what talks to a store: on one thread, because the keeper has its own.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.and_then(|runtime| {
        let within = runtime.enter();
        signals::survive_file_limits()?;
        drop(within);
        Ok(runtime)
    });
    let runtime = runtime.map_err(|error| Failure::new(STORE, format!("cannot start: {error}")))?;
    let output = runtime.block_on(future);
    // A host name that is still being looked up is nobody's business any more.
    runtime.shutdown_background();
    Ok(output)
}
