//! `cargo xtask tidy`: the house style, as far as a program can tell.

use crate::lines;
use crate::messages;
use crate::promises;
use crate::prose;
use crate::run::{Outcome, root};
use crate::tree::{self, File};

/// The most lines in a file: a reader keeps one purpose in mind, and 600 lines rarely have one.
const MAX_FILE_LINES: usize = 600;

/// Columns in a line, as rustfmt sets them.
const MAX_COLUMNS: usize = 100;

/// Marks of unfinished work; cut in two so that this file passes its own check.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// How paths begin that exist only on one machine; cut in two as above.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/ro", "ot/"), concat!("/tm", "p/wt/"), concat!("/wo", "rk/")];

/// Pages that are published with the library. The tree shows them by links, so that each is written
/// once.
const LINKS: [&str; 4] = ["README.md", "docs/postgres.md", "docs/redis.md", "docs/store-urls.md"];

/// Checks the whole tree.
pub(crate) fn run() -> Outcome {
    let files = tree::files()?;
    let mut wrong: Vec<String> = files.iter().flat_map(check).collect();
    wrong.extend(lines::check(&files));
    wrong.extend(promises::check(&files));
    wrong.extend(prose::check(&files));
    wrong.extend(prose::check_book());
    wrong.extend(messages::check(&files));
    wrong.extend(check_changelog(&files));
    let copied = LINKS.iter().filter(|page| !root().join(page).is_symlink());
    wrong.extend(copied.map(|page| format!("{page}: make it a link to that of crates/leasehold")));
    for line in &wrong {
        eprintln!("{line}");
    }
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} places are not in the style of the house")),
    }
}

fn check(file: &File) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |line: usize, what: String| wrong.push(format!("{}:{line}: {what}", file.path));
    for path in MACHINE_PATHS {
        if let Some(at) = file.text.find(path) {
            let line = file.text[..at].matches('\n').count() + 1;
            say(line, format!("a path of one machine: {path}"));
        }
    }
    if file.is("rs") {
        check_rust(file, &mut say);
    } else if file.is("lua") {
        check_lua(file, &mut say);
    } else if file.is("md") {
        check_unfinished(&file.text, &mut say);
        check_columns(fenced(&file.text), &mut say);
    } else if file.path.ends_with("Cargo.toml") {
        check_manifest(&file.text, &mut say);
    }
    wrong
}

fn check_rust(file: &File, say: &mut impl FnMut(usize, String)) {
    check_size(&file.text, say);
    check_columns(numbered(&file.text), say);
    check_unfinished(&file.text, say);
    if !["//!", "#![doc"].iter().any(|begin| file.text.starts_with(begin)) {
        say(1, "no module documentation: begin with `//!`".to_owned());
    }
}

fn check_lua(file: &File, say: &mut impl FnMut(usize, String)) {
    check_size(&file.text, say);
    check_columns(numbered(&file.text), say);
    check_unfinished(&file.text, say);
    let first = file.text.lines().find(|line| !line.starts_with("#!"));
    if !first.is_some_and(|line| line.starts_with("--")) {
        say(1, "no header: say what the script does, its KEYS and its ARGV".to_owned());
    }
}

/// Every dependency that a manifest brings in says why it is there.
fn check_manifest(text: &str, say: &mut impl FnMut(usize, String)) {
    let mut section = "";
    for (at, line) in numbered(text) {
        if line.starts_with('[') {
            section = line;
        } else if section.contains("dependencies]")
            && line.contains(" = ")
            && !line.starts_with('#')
            && !line.contains("workspace = true")
            && !line.contains("path = ")
            && !line.contains("# ")
        {
            let name = line.split(' ').next().unwrap_or_default();
            say(at, format!("{name}: say in a comment on its line why it is needed"));
        }
    }
}

/// The version that is being built has a section, where users look for what changed.
fn check_changelog(files: &[File]) -> Option<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &file.text);
    let manifest = text("Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = "))?;
    let heading = format!("## {}", version.trim_matches('"'));
    let Some(changelog) = text("CHANGELOG.md") else {
        return Some("CHANGELOG.md is missing".to_owned());
    };
    let found = changelog.lines().any(|line| line.starts_with(&heading));
    (!found).then(|| format!("CHANGELOG.md: no section `{heading}`"))
}

fn check_size(text: &str, say: &mut impl FnMut(usize, String)) {
    let lines = text.lines().count();
    if lines > MAX_FILE_LINES {
        say(lines, format!("{lines} lines: at most {MAX_FILE_LINES}"));
    }
}

fn check_columns<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    say: &mut impl FnMut(usize, String),
) {
    for (at, line) in lines {
        let columns = line.chars().count();
        if columns > MAX_COLUMNS {
            say(at, format!("{columns} columns: at most {MAX_COLUMNS}"));
        }
    }
}

fn check_unfinished(text: &str, say: &mut impl FnMut(usize, String)) {
    for (at, line) in numbered(text) {
        if let Some(mark) = UNFINISHED.iter().find(|mark| line.contains(*mark)) {
            say(at, format!("unfinished: {mark}"));
        }
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

/// The lines between the fences of a page: code.
fn fenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    numbered(text).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        inside && !fence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(path: &str, text: &str) -> Vec<String> {
        check(&File::new(path, text))
    }

    fn fails(path: &str, text: &str, why: &str) {
        let wrong = wrong(path, text);
        assert!(wrong.len() == 1 && wrong[0].contains(why), "{why}: {wrong:?}");
    }

    #[test]
    fn a_tidy_file_passes() {
        assert_eq!(wrong("crates/x/src/y.rs", "//! A module.\n\nfn f() {}\n"), [""; 0]);
        assert_eq!(wrong("x.lua", "#!lua flags=no-writes\n-- Reads.\nreturn 1\n"), [""; 0]);
    }

    #[test]
    fn each_rule_for_rust_can_fail() {
        let path = "crates/x/src/y.rs";
        fails(path, "fn f() {}\n", "module documentation");
        fails(path, &format!("//! A.\n{}", "\n".repeat(600)), "601 lines");
        fails(path, &format!("//! A.\n// {}\n", "x".repeat(98)), "101 columns");
        fails(path, &format!("//! A.\n// {}: later\n", UNFINISHED[0]), "unfinished");
        fails(path, &format!("//! See {}a.\n", MACHINE_PATHS[0]), "one machine");
    }

    #[test]
    fn each_rule_for_other_files_can_fail() {
        fails("a.lua", "#!lua\nreturn 1\n", "no header");
        fails("A.md", &format!("{} words\n", UNFINISHED[1]), "unfinished");
        let (text, long) = ("a".repeat(200), "b".repeat(101));
        fails("A.md", &format!("{text}\n```sh\n{long}\n```\n{text}\n"), ":3: 101 columns");
        let manifest = "[dependencies]\na = \"1\"\nb = \"1\" # for c\nd.workspace = true\n";
        fails("x/Cargo.toml", manifest, ":2: a: say");
    }

    #[test]
    fn the_changelog_names_the_version() {
        let manifest = || File::new("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n");
        let with = |text: &str| check_changelog(&[manifest(), File::new("CHANGELOG.md", text)]);
        assert!(check_changelog(&[manifest()]).is_some_and(|why| why.contains("missing")));
        assert!(with("## 1.2.2\n").is_some_and(|why| why.contains("## 1.2.3")));
        assert!(with("# Changes\n\n## 1.2.3, unreleased\n").is_none());
    }
}
