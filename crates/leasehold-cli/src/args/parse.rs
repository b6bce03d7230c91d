//! Reads the command line, and reports an error in it in one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use leasehold::store::shown_url;

use super::normalize::{WITH_COMMAND, normalized};
use super::{Cli, Command};
use crate::report::{Failure, Outcome, USAGE, print};

/// Reads the command line.
///
/// # Errors
///
/// The outcome to exit with, if help or the version was printed, or if the command line is wrong.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, Outcome> {
    let arguments = &normalized(arguments);
    let error = match Cli::try_parse_from(arguments) {
        Ok(cli) => return Ok(cli.command),
        Err(error) => error,
    };
    Err(match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print(error.render().to_string().trim_end()).map(|()| 0)
        }
        // No command was given, so this exit code is that of wrong usage.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            print(error.render().to_string().trim_end()).map(|()| USAGE)
        }
        kind => {
            let said = no_such_option(&error, arguments)
                .unwrap_or_else(|| one_line(&error.render().to_string()));
            let said = without_passwords(&said, arguments);
            let remedy = remedy(arguments, kind);
            Err(Failure::usage(format!("{said} ({remedy})")))
        }
    })
}

/// The error for an unknown option of `run` or `elect`, which have another command behind their
/// `--`. The parser's own message would advise to write the option behind the `--`.
fn no_such_option(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1).and_then(|command| command.to_str())?;
    let option = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(option) if option.starts_with('-') => option,
        _ => return None,
    };
    let is_similar_to_one = error.get(ContextKind::SuggestedArg).is_some();
    let is_so = error.kind() == ErrorKind::UnknownArgument
        && WITH_COMMAND.contains(&command)
        && !is_similar_to_one;
    is_so.then(|| format!("leasehold {command} has no option {option}"))
}

/// The remedy for a wrong command line. `run NAME CMD` lacks only the `--`.
fn remedy(arguments: &[OsString], kind: ErrorKind) -> String {
    let command = arguments.get(1).and_then(|command| command.to_str()).unwrap_or_default();
    let lacks_dashes = command == "run"
        && arguments.len() > 3
        && !arguments.iter().any(|argument| argument == "--")
        && matches!(kind, ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument);
    let whole = Cli::command();
    match whole.find_subcommand(command) {
        Some(_) if lacks_dashes => "write `--` before the command".to_owned(),
        Some(_) => format!("see `leasehold {command} --help`"),
        None => match similar(command, &whole) {
            // The parser gives tips itself, but none for short words.
            Some(similar) if !command.starts_with('-') => {
                format!("did you mean `leasehold {similar}`?")
            }
            Some(_) | None => "see `leasehold --help`".to_owned(),
        },
    }
}

/// A subcommand that differs from this word by one letter (added, removed or changed), or by two
/// swapped letters.
fn similar<'a>(command: &str, whole: &'a clap::Command) -> Option<&'a str> {
    let names = whole.get_subcommands().map(clap::Command::get_name);
    names.into_iter().find(|name| strsim::damerau_levenshtein(command, name) == 1)
}

/// An argument that contains one of these texts may be a store URL.
const STORE_URL_HAS: [&str; 5] = ["://", "@", "file:", "redis:", "valkey:"];

/// A message of the parser, with its passwords hidden: it may quote a store URL that was written in
/// the wrong place.
fn without_passwords(said: &str, arguments: &[OsString]) -> String {
    let texts = arguments.iter().filter_map(|argument| argument.to_str());
    let values = texts.clone().filter_map(|text| text.split_once('=').map(|(_, value)| value));
    let is_url = |text: &&str| STORE_URL_HAS.iter().any(|sign| text.contains(sign));
    let urls = texts.chain(values).filter(is_url);
    urls.fold(said.to_owned(), |said, url| said.replace(url, &shown_url(url)))
}

/// The parser's message in one line: the error and the tips, without the usage that follows.
fn one_line(rendered: &str) -> String {
    let said = rendered.split("\n\nUsage:").next().unwrap_or(rendered);
    let said = said.split("\n\nFor more information").next().unwrap_or(said);
    let said = said.strip_prefix("error: ").unwrap_or(said).replace("\n  tip:", "\n\n  tip:");
    let parts =
        said.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
