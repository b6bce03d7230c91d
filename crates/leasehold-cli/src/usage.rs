//! Reads the command line; what is wrong with it is said in one line.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Command};
use crate::report::{Failure, Outcome, Voice, print};

/// A command line that asks for nothing but to be told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) voice: Voice,
    pub(crate) outcome: Outcome,
}

/// Reads the command line.
///
/// # Errors
///
/// Help and version were asked for, or something is wrong; both have been dealt with but for the
/// exit code.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, Told> {
    let error = match Cli::try_parse_from(arguments) {
        Ok(cli) => return Ok(cli.command),
        Err(error) => error,
    };
    let voice = Voice { quiet: asks_for_silence(arguments), verbose: false };
    let outcome = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print(error.render().to_string().trim_end()).map(|()| 0)
        }
        kind => {
            let said = one_line(&error.render().to_string());
            let remedy = remedy(arguments, kind);
            Err(Failure::usage(format!("{said} ({remedy})")))
        }
    };
    Err(Told { voice, outcome })
}

/// What to do about it: whoever wrote `run NAME CMD` lacks nothing but the `--`.
fn remedy(arguments: &[OsString], kind: ErrorKind) -> String {
    let command = arguments.get(1).and_then(|command| command.to_str()).unwrap_or_default();
    let is_run = command == "run" && !arguments.iter().any(|argument| argument == "--");
    let whole = Cli::command();
    match whole.find_subcommand(command) {
        Some(_)
            if is_run
                && matches!(
                    kind,
                    ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument
                ) =>
        {
            "write `--` before the command".to_owned()
        }
        Some(_) => format!("see `leasehold {command} --help`"),
        None => "see `leasehold --help`".to_owned(),
    }
}

/// Whether `-q` is there, on a command line that could not be read.
fn asks_for_silence(arguments: &[OsString]) -> bool {
    let ours = arguments.iter().take_while(|argument| *argument != "--");
    ours.into_iter().any(|argument| argument == "-q" || argument == "--quiet")
}

/// The parser's message: what is wrong and its tip, without the usage that follows.
fn one_line(rendered: &str) -> String {
    let said = rendered.split("\n\nUsage:").next().unwrap_or(rendered);
    let said = said.split("\n\nFor more information").next().unwrap_or(said);
    let words: Vec<&str> = said.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}
