//! Reads the command line, in the order in which people type it, and reports an error in one line.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use leasehold::store::shown_url;

use super::{Cli, Command};
use crate::report::{Failure, Outcome, USAGE, print};

/// The mark before a name that begins with `-`, so that the parser does not take the name for an
/// option. No argument of a process has this character.
pub(super) const NAME_MARK: char = '\0';

/// Commands whose `--` is followed by another command.
const WITH_COMMAND: [&str; 2] = ["elect", "run"];

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
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg)? else { return None };
    // The parser finds it similar to the limit of the command.
    let is_timeout = command == "run" && option == "--timeout";
    let hint = if is_timeout { ": `--wait` limits the wait, `--max-hold` the command" } else { "" };
    let is_so = error.kind() == ErrorKind::UnknownArgument
        && option.starts_with('-')
        && WITH_COMMAND.contains(&command)
        && (is_timeout || error.get(ContextKind::SuggestedArg).is_none());
    is_so.then(|| format!("leasehold {command} has no option {option}{hint}"))
}

/// The remedy for a wrong command line. `run NAME CMD` lacks only the `--`.
fn remedy(arguments: &[OsString], kind: ErrorKind) -> String {
    let command = arguments.get(1).and_then(|command| command.to_str()).unwrap_or_default();
    let lacks_dashes = command == "run"
        && arguments.len() > 3
        && !arguments.iter().any(|argument| argument == "--")
        && matches!(kind, ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument);
    match Cli::command().find_subcommand(command) {
        Some(_) if lacks_dashes => "write `--` before the command".to_owned(),
        Some(_) => format!("see `leasehold {command} --help`"),
        None => "see `leasehold --help`".to_owned(),
    }
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

/// Puts arguments into the order that the parser expects:
///
/// - `help`, `help run` and `version` are `--help`, `run --help` and `--version`.
/// - Options that all commands have may stand before the command: `-s URL ls`.
/// - A word between two `--` that begins with `-` is a name: `run -- -NAME -- CMD`.
fn normalized(arguments: &[OsString]) -> Vec<OsString> {
    let Some((program, rest)) = arguments.split_first() else { return Vec::new() };
    let (options, rest) = rest.split_at(common_options(rest));
    let Some((command, rest)) = rest.split_first() else { return arguments.to_vec() };
    let mut all = vec![program.clone()];
    match command.to_str() {
        Some("help") => {
            all.extend(rest.first().cloned());
            all.push("--help".into());
        }
        Some("version") if rest.is_empty() => all.push("--version".into()),
        Some(known) if WITH_COMMAND.contains(&known) => {
            all.push(command.clone());
            all.extend(options.iter().cloned().chain(with_marked_names(rest)));
        }
        Some(_) | None => {
            all.push(command.clone());
            all.extend(options.iter().chain(rest).cloned());
        }
    }
    all
}

/// Moves the options that stand before the command behind it. The words are those behind the
/// program's name; the last word is still being typed.
pub(crate) fn options_last(words: &[OsString]) -> Vec<OsString> {
    let count = common_options(words);
    let (options, rest) = words.split_at(count.min(words.len().saturating_sub(1)));
    match rest {
        [command, after @ .., typed] => {
            let command = std::slice::from_ref(command);
            [command, options, after, std::slice::from_ref(typed)].concat()
        }
        // The word that is being typed is the command, or the value of an option.
        rest if count < words.len() => rest.to_vec(),
        _ => words.to_vec(),
    }
}

/// Counts the arguments at the beginning that are options of all commands, or the values of these
/// options.
fn common_options(arguments: &[OsString]) -> usize {
    let mut count = 0;
    while let Some(argument) = arguments.get(count).and_then(|argument| argument.to_str()) {
        count += match argument {
            "-q" | "--quiet" | "-v" | "--verbose" => 1,
            "-s" | "--store" => 2,
            _ if argument.starts_with("--store=") => 1,
            _ if argument.starts_with("-s") => 1,
            _ => break,
        };
    }
    count.min(arguments.len())
}

/// Marks the names between two `--`, and removes the first `--`. Words that do not begin with `-`
/// are a command, and stay as they are.
fn with_marked_names(arguments: &[OsString]) -> Vec<OsString> {
    let mut parts = arguments.splitn(3, |argument| argument == "--");
    let (Some(options), Some(names)) = (parts.next(), parts.next()) else {
        return arguments.to_vec();
    };
    let begins_so = |argument: &OsStr| argument.as_encoded_bytes().starts_with(b"-");
    if !names.first().is_some_and(|first| begins_so(first)) {
        return arguments.to_vec();
    }
    let marked = names.iter().map(|name| {
        let mut marked = OsString::from(NAME_MARK.to_string());
        marked.push(name);
        marked
    });
    let mut all: Vec<OsString> = options.iter().cloned().chain(marked).collect();
    if let Some(command) = parts.next() {
        all.push("--".into());
        all.extend_from_slice(command);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(typed: &str, parsed: &str) {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let line = |words: Vec<OsString>| words.join(OsStr::new(" ")).into_string().unwrap();
        assert_eq!(line(normalized(&words(typed))), parsed);
    }

    #[test]
    fn help_and_version_may_be_asked_for_in_words() {
        becomes("leasehold help", "leasehold --help");
        becomes("leasehold help run", "leasehold run --help");
        becomes("leasehold version", "leasehold --version");
        becomes("leasehold run help -- version", "leasehold run help -- version");
    }

    #[test]
    fn common_options_may_stand_before_the_command() {
        becomes("leasehold -s U -v run x -- c", "leasehold run -s U -v x -- c");
        becomes("leasehold --store=U -q ls", "leasehold ls --store=U -q");
        becomes("leasehold -sU ls a", "leasehold ls -sU a");
        becomes("leasehold -s U help ls", "leasehold ls --help");
        for as_typed in ["leasehold", "leasehold -s", "leasehold -s U", "leasehold --ttl 1s run x"]
        {
            becomes(as_typed, as_typed);
        }
    }

    #[test]
    fn what_is_typed_is_completed_behind_its_command() {
        for (typed, completed) in [
            ("-s U show a", "show -s U a"),
            ("-v -s U ls --json ", "ls -v -s U --json "),
            ("-s U sh", "sh"),
            ("-s U", "-s U"),
            ("sh", "sh"),
            ("show -s U a", "show -s U a"),
        ] {
            let words: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
            let words = options_last(&words).join(OsStr::new(" "));
            assert_eq!(words, completed, "{typed}");
        }
        assert_eq!(options_last(&[]), [""; 0]);
    }

    #[test]
    fn a_name_may_begin_with_a_dash_between_two_double_dashes() {
        becomes("leasehold run -n -- -d -e -- c -- d", "leasehold run -n \0-d \0-e -- c -- d");
        becomes("leasehold elect --value v -- -d", "leasehold elect --value v \0-d");
        for as_typed in ["leasehold run x -- c -- -d", "leasehold show -- -d", "leasehold run x --"]
        {
            becomes(as_typed, as_typed);
        }
    }
}
