//! GUARANTEES.md, held to its word: every promise names tests, every test it names exists, and each
//! cell of its tables that says something is shown by a test that is named.
//!
//! A table begins with `| fault | …` and has a column for each mode. The table of its tests
//! begins with `| shown by | …`: the fault's number, the modes, the tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::File;

const PAGE: &str = "GUARANTEES.md";

/// What a promise's list of tests begins with.
const TESTS: &str = "Tests:";

/// What a cell may say; `–` says that the fault does not concern the mode.
const OUTCOMES: [&str; 4] = ["✔", "gap", "neither", "order"];
const NOTHING: &str = "–";

const FAULTS: &str = "fault";
const SHOWN: &str = "shown by";

/// Checks the page against the functions of the tree.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE} is missing")];
    };
    let sources = files.iter().filter(|file| file.is("rs"));
    let functions: BTreeSet<&str> = sources.flat_map(|file| functions(&file.text)).collect();
    let tables = check_tables(&page.text).into_iter();
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

/// The names behind `fn`, but for those in comments.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let after = lines.filter_map(|line| line.split_once("fn "));
    after.filter_map(|(_, name)| name.split(['(', '<']).next())
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

/// Cells by the fault's number and the mode.
type Cells<'a> = BTreeMap<(&'a str, &'a str), &'a str>;

/// What is wrong with the tables of the page. Whether the tests exist is checked with all others.
fn check_tables(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut open = Cells::new();
    for table in tables(page) {
        let Some(([first, columns @ ..], rows)) = table.split_first().map(|(h, r)| (&h[..], r))
        else {
            continue;
        };
        match *first {
            FAULTS => {
                wrong.extend(unshown(&open));
                open = cells(columns, rows, &mut wrong);
            }
            SHOWN => {
                for row in rows {
                    wrong.extend(show(&mut open, row));
                }
                wrong.extend(unshown(&open));
                open.clear();
            }
            _ => {}
        }
    }
    wrong.extend(unshown(&open));
    wrong
}

/// The tables of a page, as rows of cells; the line below the header is left out.
fn tables(page: &str) -> Vec<Vec<Vec<&str>>> {
    let mut tables = vec![Vec::new()];
    for line in page.lines() {
        match line.strip_prefix('|') {
            Some(row) if row.starts_with("---") => {}
            Some(row) => {
                let row = row.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
                tables.last_mut().into_iter().for_each(|table| table.push(Vec::clone(&row)));
            }
            None => tables.push(Vec::new()),
        }
    }
    tables
}

fn cells<'a>(columns: &[&'a str], rows: &[Vec<&'a str>], wrong: &mut Vec<String>) -> Cells<'a> {
    let mut cells = Cells::new();
    for row in rows {
        let Some(([fault, outcomes @ ..], number)) =
            row.first().map(|first| (&row[..], number(first)))
        else {
            continue;
        };
        if outcomes.len() != columns.len() {
            wrong.push(format!("`{fault}` has {} cells: {}", outcomes.len(), columns.len()));
        }
        for (mode, outcome) in columns.iter().zip(outcomes) {
            if OUTCOMES.contains(outcome) {
                cells.insert((number, mode), outcome);
            } else if *outcome != NOTHING {
                wrong.push(format!("`{fault}`, {mode}: `{outcome}` is no outcome"));
            }
        }
    }
    cells
}

fn number(fault: &str) -> &str {
    fault.split_whitespace().next().unwrap_or_default()
}

/// Takes the cells that a row shows out of those that are to be shown.
fn show(open: &mut Cells<'_>, row: &[&str]) -> Vec<String> {
    let &[fault, modes, tests] = row else { return vec![format!("{row:?} has no three cells")] };
    let mut wrong = Vec::new();
    if !tests.contains('`') {
        wrong.push(format!("{fault}, {modes}: no test is named"));
    }
    for mode in modes.split(',').map(str::trim) {
        let cell = open.keys().find(|key| **key == (fault, mode)).copied();
        match cell {
            Some(cell) => drop(open.remove(&cell)),
            None => wrong.push(format!("{fault}, {mode}: shown, and not said, or said twice")),
        }
    }
    wrong
}

fn unshown(open: &Cells<'_>) -> Vec<String> {
    let say = |((fault, mode), outcome): (&(&str, &str), &&str)| {
        format!("{fault}, {mode}: `{outcome}` is shown by no test")
    };
    open.iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(page: &str) -> Vec<String> {
        check(&[
            File::new(PAGE, page),
            File::new("tests/a.rs", "fn it_holds() {}\n// fn it_does_not()\n"),
        ])
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

    const SAID: &str = "| fault | one | two |\n|---|---|---|\n| C1 it burns | ✔ | – |\n\n";

    #[test]
    fn a_cell_that_a_test_shows_passes() {
        let shown = "| shown by | modes | tests |\n|---|---|---|\n| C1 | one | `it_holds` |\n";
        assert_eq!(check_tables(&format!("{SAID}{shown}")), [""; 0]);
    }

    #[test]
    fn a_cell_without_a_test_and_a_test_without_a_cell_fail() {
        let header = "| shown by | modes | tests |\n|---|---|---|\n";
        assert!(check_tables(SAID)[0].contains("shown by no test"));
        let missing = check_tables(&format!("{SAID}{header}| C1 | one | see above |\n"));
        assert!(missing[0].contains("no test is named"), "{missing:?}");
        let unsaid = check_tables(&format!("{SAID}{header}| C1 | one, two | `it_holds` |\n"));
        assert!(unsaid[0].contains("not said"), "{unsaid:?}");
        let strange = check_tables("| fault | one |\n|---|---|\n| C1 it burns | perhaps |\n");
        assert!(strange[0].contains("no outcome"), "{strange:?}");
    }
}
