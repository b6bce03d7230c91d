//! `leasehold man`: manual pages, from the definition of the command line and the library's manual
//! of store URLs.

mod markdown;

use std::fmt::Write as _;
use std::io;

use clap::{Arg, Command, CommandFactory as _};
use clap_mangen::Man;
use leasehold::store::{MANUAL, Postgres, Redis};
use roff::{Roff, roman};

use crate::args::Cli;
use crate::report::{Failure, Outcome, print};

/// The names of the pages about store URLs and about servers.
const STORE: &str = "store";
const POSTGRES: &str = "postgres";
const REDIS: &str = "redis";

/// The beginnings of those paragraphs of the help that become sections of a manual page.
const EXAMPLES: &str = "Examples:\n";
const EXIT_CODE: &str = "Exit code: ";

/// The exit codes of commands without a paragraph about exit codes.
const USUAL_EXIT: &str = "0 done; 1 the answer is no; 69 trouble with the store; 2 usage.";

/// Prints a manual page: about leasehold, one command, store URLs or servers.
pub(crate) fn man(name: Option<&str>) -> Outcome {
    let mut whole = Cli::command();
    whole.build();
    let page = match name {
        None => page_of(whole),
        Some(STORE) => {
            let about = "store URLs, their options and their needs";
            Ok(page_from("leasehold-store", about, MANUAL))
        }
        Some(REDIS) => {
            let about = "Redis and Valkey: promises, settings, rights";
            Ok(page_from("leasehold-redis", about, Redis::MANUAL))
        }
        Some(POSTGRES) => {
            let about = "PostgreSQL: promises, settings, rights";
            Ok(page_from("leasehold-postgres", about, Postgres::MANUAL))
        }
        Some(name) => match whole.find_subcommand(name) {
            Some(command) => page_of(command.clone()),
            None => {
                let pages = format!("`{STORE}`, `{POSTGRES}` or `{REDIS}`");
                let why = format!("there is no page {name:?}: name a command, {pages}");
                return Err(Failure::usage(why));
            }
        },
    };
    let page = page.map_err(|error| Failure::usage(format!("cannot write the page: {error}")))?;
    print(page.trim_end()).map(|()| 0)
}

/// The names of all pages except the main page.
pub(crate) fn pages() -> Vec<String> {
    let whole = Cli::command();
    let commands = whole.get_subcommands().map(|command| command.get_name().to_owned());
    commands.chain([STORE, POSTGRES, REDIS].map(ToOwned::to_owned)).collect()
}

/// A page from a manual in Markdown, whose first line is its title.
fn page_from(name: &str, about: &str, manual: &str) -> String {
    let mut page = Roff::new();
    page.control("TH", [name, "7"]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["DESCRIPTION"]);
    markdown::append(&mut page, manual.split_once('\n').map_or("", |(_title, body)| body));
    plain(&page.to_roff())
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
    let mut after = Roff::new();
    filled(&mut after, &notes);
    options.extend(plain(&after.to_roff()).into_bytes());
    man.render_options_section(&mut options)?;
    if has_commands {
        man.render_subcommands_section(&mut options)?;
    }
    let (mut usage, mut rest) = (Roff::new(), Roff::new());
    verbatim(usage.control("SH", ["SYNOPSIS"]), &synopsis);
    if let Some(examples) = examples {
        verbatim(rest.control("SH", ["EXAMPLES"]), examples);
    }
    if has_store {
        filled(rest.control("SH", ["EXIT STATUS"]), exits.unwrap_or(USUAL_EXIT));
        let sections = MANUAL.split("\n## ").skip(1);
        for section in sections
            .filter(|it| ["Environment\n", "Files\n"].iter().any(|title| it.starts_with(title)))
        {
            markdown::append(&mut rest, &format!("## {section}"));
        }
        let others = "leasehold(1), leasehold-store(7): leasehold man, leasehold man store";
        filled(rest.control("SH", ["SEE ALSO"]), others);
    }
    let (usage, rest) = (plain(&usage.to_roff()), plain(&rest.to_roff()));
    let (head, options) = (String::from_utf8_lossy(&head), String::from_utf8_lossy(&options));
    Ok(ascii(&format!("{head}{usage}{options}{rest}")))
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

/// Splits the text behind the options into examples, exit codes and the rest.
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

/// Appends paragraphs of help. A paragraph with indented lines stays as it is; the others are
/// filled.
fn filled(page: &mut Roff, help: &str) {
    for paragraph in help.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        match paragraph.contains("\n  ") {
            true => verbatim(page, paragraph),
            false => {
                page.control("PP", []).text([roman(paragraph)]);
            }
        }
    }
}

/// Appends lines as they are.
fn verbatim(page: &mut Roff, lines: &str) {
    page.control("PP", []).control("nf", []).text([roman(lines)]).control("fi", []);
}

/// Makes roff print quotes and signs as plain ASCII, so that text can be copied from the page.
fn plain(roff: &str) -> String {
    let signs = [('\'', "\\(aq"), ('`', "\\(ga"), ('^', "\\(ha"), ('~', "\\(ti")];
    ascii(&signs.iter().fold(roff.to_owned(), |roff, (sign, name)| roff.replace(*sign, name)))
}

/// Writes the page in ASCII, so that every roff can read it, with any encoding.
fn ascii(page: &str) -> String {
    let mut roff = String::with_capacity(page.len());
    for c in page.chars() {
        match c {
            c if c.is_ascii() => roff.push(c),
            c => drop(write!(roff, "\\[u{:04X}]", u32::from(c))),
        }
    }
    roff
}
