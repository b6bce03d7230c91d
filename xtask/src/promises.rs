//! GUARANTEES.md, held to its word: every promise names tests, and every test it names exists.

use std::collections::BTreeSet;

use crate::matrix;
use crate::source::Source;
use crate::tree::File;

const PAGE: &str = "GUARANTEES.md";

/// What a promise's list of tests begins with.
const TESTS: &str = "Tests:";

/// Checks the page against the functions of the tree.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE} is missing")];
    };
    let sources = files.iter().filter(|file| file.is("rs"));
    // What cannot be read is said by the check of each file.
    let sources: Vec<Source> = sources.filter_map(|file| Source::parse(&file.text).ok()).collect();
    let functions: BTreeSet<String> =
        sources.iter().flat_map(Source::functions).map(|function| function.name).collect();
    let tables = matrix::check(&page.text).into_iter();
    let mut wrong: Vec<String> = tables.map(|why| format!("{PAGE}: {why}")).collect();
    let elsewhere = quoted(&page.text).filter(|word| is_test(word) && !functions.contains(*word));
    wrong.extend(elsewhere.map(|test| format!("{PAGE}: no test `{test}`")));
    let mut number = 0_u32;
    for promise in promises(&page.text) {
        number += 1;
        let title = promise.lines().next().unwrap_or_default();
        if !title.starts_with(&format!("G{number}.")) {
            wrong.push(format!("{PAGE}: `{title}` should be number G{number}"));
        }
        let tests = named_tests(promise);
        if tests.is_empty() {
            wrong.push(format!("{PAGE}: G{number} names no test after `{TESTS}`"));
        }
        let missing = tests.iter().filter(|test| !is_test(test) && !functions.contains(**test));
        wrong.extend(missing.map(|test| format!("{PAGE}: G{number}: no test `{test}`")));
    }
    if number == 0 {
        wrong.push(format!("{PAGE}: no promises (`### G1. …`)"));
    }
    wrong
}

/// The sections of the page that are promises, each from its number on.
fn promises(page: &str) -> impl Iterator<Item = &str> {
    let sections = page.split("\n#").map(|section| section.trim_start_matches('#').trim_start());
    sections.filter(|section| {
        let number = section.strip_prefix('G').and_then(|rest| rest.split_once('.'));
        number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    })
}

/// The names in backquotes behind `Tests:`, without the modules before them.
fn named_tests(promise: &str) -> Vec<&str> {
    let Some((_, tests)) = promise.split_once(TESTS) else { return Vec::new() };
    quoted(tests).collect()
}

/// What stands in backquotes, without the modules before it.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(|name| name.rsplit("::").next().unwrap_or(name))
}

/// Whether a word is the sentence that a test is named by, wherever on the page it stands.
fn is_test(word: &str) -> bool {
    let is_name = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name && word.matches('_').count() > 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(page: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        check(&[file(PAGE, page), file("tests/a.rs", "fn it_holds() {}\n// fn it_does_not()\n")])
    }

    #[test]
    fn a_promise_whose_test_exists_passes() {
        assert_eq!(wrong("# Promises\n\n### G1. It holds\n\nTests: `a::it_holds`.\n"), [""; 0]);
    }

    #[test]
    fn a_promise_without_a_real_test_fails() {
        let missing = "\n### G1. It holds\n\nTests: `it_holds`, `it_does_not`.\n";
        assert!(wrong(missing)[0].contains("no test `it_does_not`"));
        assert!(wrong("\n### G1. It holds\n\nTrust us.\n")[0].contains("names no test"));
        let skipped = "\n### G2. It holds\n\nTests: `it_holds`.\n";
        assert!(wrong(skipped)[0].contains("should be number G1"));
        assert!(wrong("# Promises\n")[0].contains("no promises"));
        let in_the_text = "Broken by `it_is_broken_by_this`.\n\n### G1. It\n\nTests: `it_holds`.\n";
        assert_eq!(wrong(in_the_text), ["GUARANTEES.md: no test `it_is_broken_by_this`"]);
        assert!(check(&[])[0].contains("missing"));
    }
}
