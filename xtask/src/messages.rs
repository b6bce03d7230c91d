//! `cargo xtask messages`: the errors and remarks of the library and the command on one page, to be
//! read in one go. It lists the string literals of six words or more, each of them once.

use std::collections::HashSet;
use std::fs;

use crate::run::{Outcome, root};
use crate::tree::{self, File};

const PAGE: &str = "docs/messages.md";

/// The crates that speak to users.
const CRATES: [&str; 4] = [
    "crates/leasehold-cli/src/",
    "crates/leasehold-core/src/",
    "crates/leasehold-data/src/",
    "crates/leasehold/src/",
];

/// Parts of paths whose texts nobody looks up: those of tests, help and screens, and what the
/// doctor finds, since it prints the remedy beside each finding.
const LEFT_OUT: &str = "tests fuzzing schedules differential bugs.rs args/commands.rs \
                        args/shared.rs top/screen.rs serve/router.rs metrics.rs setters.rs \
                        rights.rs inbox/message.rs doctor deadlock clocks.rs checks.rs";

/// The code before a text that is for programmers or for other programs.
const NOT_SAID: [&str; 6] =
    ["expect(", "reason = ", "must_use = ", "debug!(", "unreachable!(", "panic!("];

/// How texts for a database, and remainders of sentences, begin.
const NO_MESSAGE: &str =
    "SELECT CREATE UPDATE INSERT DELETE WITH PRAGMA GRANT ALTER BEGIN close_ list_ quick_ , ;";

/// The fewest words of a text that counts as a message.
const FEWEST_WORDS: usize = 6;

/// Writes the page.
pub(crate) fn update() -> Outcome {
    let page = page(&tree::files()?);
    fs::write(root().join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// Whether the page says what the source says.
pub(crate) fn check(files: &[File]) -> Option<String> {
    let found = files.iter().find(|file| file.path == PAGE).map(|file| &*file.text);
    (found != Some(&*page(files))).then(|| format!("{PAGE} is old: run `cargo xtask messages`"))
}

fn page(files: &[File]) -> String {
    let page =
        "# Messages\n\nBraces stand for values; `cargo xtask messages` writes this.\n\n".to_owned();
    let spoken = files.iter().filter(|file| file.is("rs") && speaks(&file.path));
    let mut seen = HashSet::new();
    let texts = spoken.flat_map(|file| texts(&file.text));
    let new = texts.filter(|text| seen.insert(text.clone()));
    page + &new.map(|text| format!("- {text}\n")).collect::<String>()
}

fn speaks(path: &str) -> bool {
    CRATES.iter().any(|begin| path.starts_with(begin))
        && !LEFT_OUT.split_whitespace().any(|part| path.contains(part))
}

/// The messages of a source, without those of its tests.
fn texts(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let mut texts = Vec::new();
    let mut before = String::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        before.push_str(&rest[..at]);
        rest = &rest[at..];
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("'\"'") {
            3
        } else if let Some(literal) = rest.strip_prefix('"') {
            let text = literal_end(literal).map_or(literal, |end| &literal[..end]);
            if is_message(before.trim_end(), text) {
                texts.push(joined(text));
            }
            before.clear();
            text.len() + 2
        } else {
            1
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    texts
}

/// The end of a literal that has begun: a quote behind an even number of backslashes.
fn literal_end(literal: &str) -> Option<usize> {
    let is_end = |at: &usize| {
        let backslashes = literal[..*at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        backslashes % 2 == 0
    };
    literal.match_indices('"').map(|(at, _)| at).find(is_end)
}

fn is_message(before: &str, text: &str) -> bool {
    let is_word = |word: &&str| word.bytes().filter(u8::is_ascii_lowercase).count() > 1;
    let words = text.split_whitespace().filter(is_word).count();
    words >= FEWEST_WORDS
        && !NOT_SAID.iter().any(|end| before.ends_with(end.trim_end()))
        && !NO_MESSAGE.split_whitespace().any(|begin| text.trim_start().starts_with(begin))
}

/// Joins a literal of several lines into one line.
fn joined(text: &str) -> String {
    let lines = text.split("\\\n").map(str::trim_start);
    lines.collect::<String>().replace(['\n', '|'], " ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_and_other_texts_are_not() {
        let source = "// \"this text is only a comment\"\n\
                      say(\"the store \\\n    does not \\\"answer\\\" any call\");\n\
                      a.expect(\"it was checked just before this\");\nlet q = '\"';\n\
                      sql(\"SELECT one thing from all of them\");\nsay(\"busy\");\n\
                      #[cfg(test)]\nmod tests { \"this text is of a test\" }\n";
        assert_eq!(texts(source), ["the store does not \\\"answer\\\" any call"]);
    }

    #[test]
    fn an_old_page_is_named_with_the_remedy() {
        let source =
            || File::new("crates/leasehold/src/a.rs", "//! A.\nsay(\"it is not there as yet\")");
        let written = page(&[source(), source()]);
        assert!(written.ends_with("\n\n- it is not there as yet\n"), "{written}");
        assert_eq!(check(&[source(), File::new(PAGE, &written)]), None);
        let old = check(&[source(), File::new(PAGE, "# Messages\n")]);
        assert!(old.is_some_and(|why| why.contains("cargo xtask messages")));
    }
}
