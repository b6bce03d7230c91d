//! `leasehold man`: manual pages, from the definition of the command line and the library's manual
//! of store URLs.

mod roff;

use std::io;

use clap::{Arg, Command, CommandFactory as _};
use clap_mangen::Man;
use leasehold::store::{MANUAL, redis};

use crate::args::Cli;
use crate::report::{Failure, Outcome, print};

/// The page of store URLs, and that of Redis.
const STORE: &str = "store";
const REDIS: &str = "redis";

/// How paragraphs of help begin that are sections of their own in a manual.
const EXAMPLES: &str = "Examples:\n";
const EXIT_CODE: &str = "Exit code: ";

/// What a command says by its exit code that says nothing else about it.
const USUAL_EXIT: &str = "0 done; 1 the answer is no; 69 trouble with the store; 2 usage.";

/// Prints a manual page: of the whole, of one command, of store URLs or of Redis.
pub(crate) fn man(name: Option<&str>) -> Outcome {
    let mut whole = Cli::command();
    whole.build();
    let page = match name {
        None => page_of(whole),
        Some(STORE) => {
            Ok(roff::page("leasehold-store", "store URLs, their options and their needs", MANUAL))
        }
        Some(REDIS) => Ok(roff::page(
            "leasehold-redis",
            "Redis and Valkey: promises, settings, rights",
            redis::MANUAL,
        )),
        Some(name) => match whole.find_subcommand(name) {
            Some(command) => page_of(command.clone()),
            None => {
                let why =
                    format!("there is no page {name:?}: name a command, `{STORE}` or `{REDIS}`");
                return Err(Failure::usage(why));
            }
        },
    };
    let page = page.map_err(|error| Failure::usage(format!("cannot write the page: {error}")))?;
    print(page.trim_end()).map(|()| 0)
}

/// The names of the pages, but for that of the whole.
pub(crate) fn pages() -> Vec<String> {
    let whole = Cli::command();
    let commands = whole.get_subcommands().map(|command| command.get_name().to_owned());
    commands.chain([STORE.to_owned(), REDIS.to_owned()]).collect()
}

fn page_of(command: Command) -> io::Result<String> {
    let synopsis = synopsis(command.clone());
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_store = command.has_subcommands() || command.get_arguments().any(is_store);
    let has_commands = command.has_subcommands();
    let man = Man::new(command).source(concat!("leasehold ", env!("CARGO_PKG_VERSION")));
    let (mut head, mut options) = (Vec::new(), Vec::new());
    man.render_title(&mut head)?;
    man.render_name_section(&mut head)?;
    man.render_description_section(&mut options)?;
    let (examples, exits, notes) = parts(&help);
    options.extend(roff::filled(&notes).into_bytes());
    man.render_options_section(&mut options)?;
    if has_commands {
        man.render_subcommands_section(&mut options)?;
    }
    let mut page = String::from_utf8_lossy(&head).into_owned();
    page.push_str(&roff::section("Synopsis", &roff::verbatim(&synopsis)));
    page.push_str(&String::from_utf8_lossy(&options));
    if let Some(examples) = examples {
        page.push_str(&roff::section("Examples", &roff::verbatim(examples)));
    }
    if has_store {
        let exits = exits.unwrap_or(USUAL_EXIT);
        page.push_str(&roff::section("Exit status", &roff::filled(exits)));
        page.push_str(&roff::section_of(MANUAL, "Environment"));
        page.push_str(&roff::section_of(MANUAL, "Files"));
        let others = "leasehold(1), leasehold-store(7): leasehold man, leasehold man store";
        page.push_str(&roff::section("See also", &roff::filled(others)));
    }
    Ok(roff::ascii(&page))
}

/// One line, with the options behind the names: `leasehold run NAME... [OPTIONS] -- CMD...`.
fn synopsis(mut command: Command) -> String {
    let usage = command.render_usage().to_string();
    let line = usage.trim_start_matches("Usage: ").replace(['<', '>'], "");
    let Some((before, names)) = line.split_once(" [OPTIONS]") else { return line };
    match names.split_once(" -- ") {
        Some((names, rest)) => format!("{before}{names} [OPTIONS] -- {rest}"),
        None => format!("{before}{names} [OPTIONS]"),
    }
}

/// Examples, exit codes and all the rest of the text behind the options.
fn parts(help: &str) -> (Option<&str>, Option<&str>, String) {
    let (mut examples, mut exits, mut notes) = (None, None, Vec::new());
    for paragraph in help.split("\n\n") {
        if let Some(lines) = paragraph.strip_prefix(EXAMPLES) {
            examples = Some(lines);
        } else if let Some(codes) = paragraph.strip_prefix(EXIT_CODE) {
            exits = Some(codes);
        } else if !paragraph.is_empty() {
            notes.push(paragraph);
        }
    }
    (examples, exits, notes.join("\n\n"))
}

fn is_store(argument: &Arg) -> bool {
    argument.get_id() == STORE
}
