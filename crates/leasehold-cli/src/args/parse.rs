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
/// Help and version were asked for, or something is wrong; both have been dealt with but for the
/// exit code.
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
        // Nothing was asked, so nothing was done.
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

/// The error for an option that a command with another command behind its `--` does not have. The
/// parser would have it written behind the `--`.
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

/// What to do about it: `run NAME CMD` lacks nothing but the `--`.
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
            // The parser has its own tips, and none for short words.
            Some(similar) if !command.starts_with('-') => {
                format!("did you mean `leasehold {similar}`?")
            }
            Some(_) | None => "see `leasehold --help`".to_owned(),
        },
    }
}

/// A subcommand with one letter more, less or other than this, or two in the other order.
fn similar<'a>(command: &str, whole: &'a clap::Command) -> Option<&'a str> {
    let names = whole.get_subcommands().map(clap::Command::get_name);
    names.into_iter().find(|name| strsim::damerau_levenshtein(command, name) == 1)
}

/// What tells that an argument may be a store URL.
const STORE_URL_HAS: [&str; 5] = ["://", "@", "file:", "redis:", "valkey:"];

/// A message of the parser's, which may quote an argument: a store URL in the wrong place, too.
fn without_passwords(said: &str, arguments: &[OsString]) -> String {
    let texts = arguments.iter().filter_map(|argument| argument.to_str());
    let values = texts.clone().filter_map(|text| text.split_once('=').map(|(_, value)| value));
    let is_url = |text: &&str| STORE_URL_HAS.iter().any(|sign| text.contains(sign));
    let urls = texts.chain(values).filter(is_url);
    urls.fold(said.to_owned(), |said, url| said.replace(url, &shown_url(url)))
}

/// The parser's message: what is wrong and its tips, without the usage that follows.
fn one_line(rendered: &str) -> String {
    let said = rendered.split("\n\nUsage:").next().unwrap_or(rendered);
    let said = said.split("\n\nFor more information").next().unwrap_or(said);
    let said = said.strip_prefix("error: ").unwrap_or(said).replace("\n  tip:", "\n\n  tip:");
    let parts =
        said.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
