//! `leasehold man`: manual pages, from the definition of the command line and the library's manual
//! of store URLs.

use std::fmt::Write as _;
use std::io;

use clap::{Command, CommandFactory as _};
use clap_complete::CompletionCandidate;
use clap_mangen::Man;
use leasehold::store::{MANUAL, Postgres, Redis};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, italic, roman};

use crate::args::Cli;
use crate::report::{Failure, Outcome, print};

/// The pages about store URLs and about servers: the name, the subject and the text.
const MANUALS: [(&str, &str, &str); 3] = [
    ("store", "store URLs, their options and their needs", MANUAL),
    ("postgres", "PostgreSQL: promises, settings, rights", Postgres::MANUAL),
    ("redis", "Redis and Valkey: promises, settings, rights", Redis::MANUAL),
];

/// The beginnings of those paragraphs of the help that become sections of a manual page.
const EXAMPLES: &str = "Examples:\n";
const EXIT_CODE: &str = "Exit code: ";

/// The exit codes of commands without a paragraph about exit codes.
const USUAL_EXIT: &str = "0 done; 1 the answer is no; 69 trouble with the store; 2 usage.";

/// Prints a manual page: about leasehold, one command, store URLs or servers.
pub(crate) fn man(name: Option<&str>) -> Outcome {
    let mut whole = Cli::command();
    whole.build();
    let manual = MANUALS.iter().find(|(manual, ..)| Some(*manual) == name);
    let command = name.map_or(Some(&whole), |name| whole.find_subcommand(name));
    let page = match (manual, command) {
        (Some(manual), _) => Ok(page_from(manual)),
        (None, Some(command)) => page_of(command.clone()),
        (None, None) => {
            let others = "a command, `store`, `postgres` or `redis`";
            let why = format!("there is no page {:?}: name {others}", name.unwrap_or_default());
            return Err(Failure::usage(why));
        }
    };
    let page = page.map_err(|error| Failure::usage(format!("cannot write the page: {error}")))?;
    print(page.trim_end()).map(|()| 0)
}

/// The names of all pages except the main page.
pub(crate) fn pages() -> Vec<CompletionCandidate> {
    let whole = Cli::command();
    let commands = whole.get_subcommands().map(Command::get_name);
    commands.chain(MANUALS.map(|(name, ..)| name)).map(CompletionCandidate::new).collect()
}

/// A page from a manual in Markdown, whose first line is its title.
fn page_from(&(name, about, manual): &(&str, &str, &str)) -> String {
    let mut page = Roff::new();
    let name = format!("leasehold-{name}");
    page.control("TH", [name.as_str(), "7"]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["DESCRIPTION"]);
    append_markdown(&mut page, manual.split_once('\n').map_or("", |(_title, body)| body));
    plain(&page.to_roff())
}

fn page_of(command: Command) -> io::Result<String> {
    let synopsis = synopsis(command.clone());
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_commands = command.has_subcommands();
    let has_store = has_commands || command.get_arguments().any(|it| it.get_id() == "store");
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
        let is_shown = |it: &&str| it.starts_with("Environment\n") || it.starts_with("Files\n");
        for section in MANUAL.split("\n## ").filter(is_shown) {
            append_markdown(&mut rest, &format!("## {section}"));
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
    for paragraph in help.trim_end().split("\n\n") {
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

/// Appends headings, paragraphs, tables, lists and blocks of code to a page. A row of a table
/// becomes a paragraph under its first cell, and a third column is introduced by its title.
fn append_markdown(page: &mut Roff, markdown: &str) {
    let (mut line, mut cells): (Vec<Inline>, Vec<Vec<Inline>>) = Default::default();
    let (mut titles, mut is_emphasis) = (Vec::new(), false);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Text(text) if is_emphasis => line.push(italic(&*text)),
            Event::Text(text) => line.push(roman(&*text)),
            Event::Code(text) => line.push(bold(&*text)),
            Event::SoftBreak => line.push(roman(" ")),
            Event::Start(Tag::Emphasis) => is_emphasis = true,
            Event::End(TagEnd::Emphasis) => is_emphasis = false,
            Event::End(TagEnd::Heading(_)) => {
                let title = words(&std::mem::take(&mut line)).to_uppercase();
                page.control("SH", [title.as_str()]);
            }
            Event::Start(Tag::Paragraph) => {
                page.control("PP", []);
            }
            Event::Start(Tag::Item) => {
                page.control("IP", ["\\(bu", "2"]);
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item) => {
                page.text(std::mem::take(&mut line));
            }
            Event::Start(Tag::CodeBlock(_)) => {
                page.control("PP", []).control("nf", []);
            }
            Event::End(TagEnd::CodeBlock) => {
                let code = words(&std::mem::take(&mut line));
                page.text([roman(code.trim_end())]).control("fi", []);
            }
            Event::End(TagEnd::TableCell) => cells.push(std::mem::take(&mut line)),
            Event::End(TagEnd::TableHead) => {
                titles = cells.drain(..).map(|title| words(&title)).collect();
            }
            Event::End(TagEnd::TableRow) => {
                let mut row = std::mem::take(&mut cells).into_iter();
                page.control("TP", []).text(row.next().unwrap_or_default());
                let mut said = row.next().unwrap_or_default();
                for (title, cell) in titles.iter().skip(2).zip(row) {
                    said.push(roman(format!(" ({title}: ")));
                    said.extend(cell);
                    said.push(roman(")"));
                }
                page.text(said);
            }
            _ => {}
        }
    }
}

fn words(line: &[Inline]) -> String {
    let texts = line.iter().map(|part| match part {
        Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text.as_str(),
        Inline::LineBreak => "\n",
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_becomes_a_page() {
        let manual = [
            "Say\n`a-b` and\n*more*.\n",
            "\n## One\n\n| key | is | default |\n|---|---|---|\n| `a` | x \\| y | `1` |\n",
            "\n- first\n  goes on\n\n```sh\n.x \\\n```\n## Two\n\nend\n",
        ];
        let mut page = Roff::new();
        append_markdown(&mut page, &manual.concat());
        let page = page.to_roff();
        for words in [
            ".PP\nSay \\fBa\\-b\\fR and \\fImore\\fR.\n",
            ".SH ONE\n.TP\n\\fBa\\fR\nx | y (default: \\fB1\\fR)\n",
            ".IP \\(bu 2\nfirst goes on\n",
            ".PP\n.nf\n\\&.x \\\\\n.fi\n",
            ".SH TWO\n.PP\nend\n",
        ] {
            assert!(page.contains(words), "{words:?}: {page}");
        }
    }
}
