//! No part grows: `xtask/limits.txt` has the most lines of code of each crate, and
//! `cargo xtask tidy` fails above it. `cargo xtask limits` lowers the limits to what is there.
//!
//! A line of code is no blank, no comment and no test. An item behind `#[cfg(test)]` is a test, or
//! behind `#[cfg(fuzzing)]` or `#[cfg(leasehold_test_bugs)]`. So is the file of a module that is
//! declared so. What follows that item in its file is not.

use std::collections::BTreeMap;
use std::fs;

use crate::run::{Outcome, root};
use crate::tree::{self, File};

const LIMITS: &str = "xtask/limits.txt";

/// A part that is smaller than its limit by more than this must lower the limit.
const SLACK: usize = 20;

/// The folders of the crates whose code is counted, and the name of each in the table.
const CRATES: [(&str, &str); 8] = [
    ("crates/leasehold/src/", "library"),
    ("crates/leasehold-core/src/", "core"),
    ("crates/leasehold-cli/src/commands/serve/page/", "page"),
    ("crates/leasehold-cli/src/", "command"),
    ("crates/leasehold-data/src/", "data"),
    ("python/leasehold/", "python"),
    ("python/src/", "python"),
    ("xtask/src/", "xtask"),
];

/// All other code in Rust and Python, and all tests within the crates. Examples do not count.
const TESTS: &str = "tests";
const EXAMPLES: &str = "examples/";

/// How lines of code begin that are comments, by the extension of the file.
const COMMENTS: [(&str, &[&str]); 7] = [
    ("rs", &["//"]),
    ("lua", &["--"]),
    ("sql", &["--"]),
    ("py", &["#"]),
    ("js", &["//", "/*"]),
    ("css", &["/*"]),
    ("html", &["<!--"]),
];

type Sizes = BTreeMap<String, usize>;

/// Prints how large each part is, and its limit.
pub(crate) fn report() -> Outcome {
    let files = tree::files()?;
    let (mut sizes, mut limits) = (sizes(&files), limits(&files));
    for table in [&mut sizes, &mut limits] {
        let sum = ["library", "core"].iter().filter_map(|part| table.get(*part)).sum();
        table.insert("library + core".to_owned(), sum);
    }
    println!("| part | is | at most |\n|---|---:|---:|");
    for (part, size) in &sizes {
        println!("| {part} | {size} | {} |", limits.get(part).copied().unwrap_or_default());
    }
    Ok(())
}

/// Lowers each limit to the size of its part.
pub(crate) fn lower() -> Outcome {
    let files = tree::files()?;
    let limits = limits(&files);
    let lowest = |(part, size): (String, usize)| {
        let limit = limits.get(&part).map_or(size, |limit| size.min(*limit));
        format!("{part} {limit}\n")
    };
    let text: String = sizes(&files).into_iter().map(lowest).collect();
    fs::write(root().join(LIMITS), text).map_err(|error| format!("{LIMITS}: {error}"))
}

/// The parts that are larger than their limit, or so much smaller that it must fall.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let limits = limits(files);
    let judge = |(part, size): (String, usize)| match limits.get(&part) {
        None => Some(format!("{LIMITS}: no limit for {part}: run `cargo xtask limits`")),
        Some(limit) if size > *limit => {
            Some(format!("{part}: {size}, and {LIMITS} allows {limit}: remove {}", size - limit))
        }
        Some(limit) if size + SLACK < *limit => {
            Some(format!("{LIMITS}: {part} has {size} of {limit}: run `cargo xtask limits`"))
        }
        Some(_) => None,
    };
    sizes(files).into_iter().filter_map(judge).collect()
}

fn limits(files: &[File]) -> Sizes {
    let rows = files.iter().filter(|file| file.path == LIMITS).flat_map(|file| file.text.lines());
    let rows = rows.filter_map(|row| row.split_once(' '));
    rows.filter_map(|(part, limit)| Some((part.to_owned(), limit.parse().ok()?))).collect()
}

fn sizes(files: &[File]) -> Sizes {
    let mut sizes = Sizes::new();
    let mut add = |part: &str, size| {
        if size > 0 {
            *sizes.entry(part.to_owned()).or_default() += size;
        }
    };
    let tests: Vec<String> = files.iter().filter(|file| file.is("rs")).flat_map(modules).collect();
    for file in files {
        if file.is("md") {
            add("words", file.text.split_whitespace().count());
        }
        let Some((_, comments)) = COMMENTS.iter().find(|(extension, _)| file.is(extension)) else {
            continue;
        };
        let part = CRATES.iter().find(|(folder, _)| file.path.starts_with(folder));
        let is_test = tests.iter().any(|module| file.path.starts_with(module));
        let lines = |text: &str, comments: &[&str]| {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.filter(|line| !comments.iter().any(|mark| line.starts_with(mark))).count()
        };
        let (code, test) = match part {
            Some(_) if !is_test => halves(&file.text),
            _ => (String::new(), file.text.clone()),
        };
        if let Some((_, part)) = part.filter(|_| !is_test) {
            add(part, lines(&code, comments));
        }
        if (file.is("rs") || file.is("py")) && !file.path.starts_with(EXAMPLES) {
            add(TESTS, lines(&test, &[]));
        }
    }
    sizes
}

/// How the paths of the modules begin that a file declares as tests.
fn modules(file: &File) -> Vec<String> {
    let test = halves(&file.text).1;
    let names = test.lines().filter_map(|line| line.strip_suffix(';')?.split_once("mod "));
    let path = file.path.trim_end_matches(".rs");
    let folder = ["/mod", "/lib", "/main"].iter().find_map(|it| path.strip_suffix(it));
    let folder = folder.unwrap_or(path);
    names.flat_map(|(_, name)| [".rs", "/"].map(|end| format!("{folder}/{name}{end}"))).collect()
}

/// The code of a file, and its tests. The indentation of rustfmt shows where an item ends.
fn halves(text: &str) -> (String, String) {
    let mut halves = (String::new(), String::new());
    let mut item = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let condition = line.trim_start().strip_prefix("#[cfg(").unwrap_or_default();
        let first = condition.trim_start_matches("all(").split([',', ')']).next();
        if item.is_none() && matches!(first, Some("test" | "fuzzing" | "leasehold_test_bugs")) {
            item = Some(indent);
        }
        let half = if item.is_some() { &mut halves.1 } else { &mut halves.0 };
        half.push_str(line);
        half.push('\n');
        let is_attribute = line.trim_start().starts_with("#[");
        if item == Some(indent) && !is_attribute && line.ends_with(['}', ';', ',']) {
            item = None;
        }
    }
    halves
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/leasehold/src/a.rs";

    fn size(path: &str, text: &str, part: &str) -> Option<usize> {
        sizes(&[File::new(path, text)]).get(part).copied()
    }

    #[test]
    fn blanks_comments_and_tests_are_no_code_and_what_follows_a_test_is() {
        let text = "//! A.\n\nfn a() {\n    // Why.\n    b();\n}\n\n\
                    #[cfg(test)]\n#[derive(Debug)]\nfn t(\n    x: u8,\n) {\n    x;\n}\n\n\
                    fn c() {\n    #[cfg(test)]\n    t();\n}\n";
        assert_eq!(size(PATH, text, "library"), Some(5));
        assert_eq!(size(PATH, text, TESTS), Some(9));
    }

    #[test]
    fn the_file_of_a_module_for_tests_is_a_test() {
        for mark in ["test", "all(test, a)", "fuzzing", "all(fuzzing, a)", "leasehold_test_bugs"] {
            let parent = File::new(PATH, &format!("mod b;\n#[cfg({mark})]\nmod tests;\n"));
            let file = |name| File::new(&format!("crates/leasehold/src/a/{name}"), "fn f() {}\n");
            let sizes = sizes(&[parent, file("b.rs"), file("tests.rs"), file("tests/c.rs")]);
            assert_eq!((sizes["library"], sizes[TESTS]), (2, 4), "{mark}");
        }
    }

    #[test]
    fn scripts_count_in_their_crate_and_words_everywhere() {
        let text = "-- Reads.\nreturn 1\n";
        assert_eq!(size("crates/leasehold/src/lua/a.lua", text, "library"), Some(1));
        assert_eq!(size("docs/a.md", "# A b\n\nc\n", "words"), Some(4));
        assert_eq!(size("tests/src/lib.rs", "//! A.\n\nfn f() {}\n", TESTS), Some(2));
    }

    #[test]
    fn a_part_above_its_limit_and_a_limit_far_above_its_part_fail() {
        let code = |lines: usize| File::new(PATH, &"f();\n".repeat(lines));
        let limit = || File::new(LIMITS, "library 100\n");
        let wrong = |lines: usize| check(&[code(lines), limit()]).concat();
        assert_eq!((wrong(100), wrong(80)), (String::new(), String::new()));
        assert!(wrong(101).contains("allows 100: remove 1"), "{}", wrong(101));
        assert!(wrong(79).contains("79 of 100: run `cargo xtask limits`"), "{}", wrong(79));
        assert!(check(&[code(1)]).concat().contains("no limit for library"));
    }
}
