//! Checks GUARANTEES.md against docs/coverage.md. Every promise, and each cell of a table that says
//! something, has a test there. Every test that either page names exists.
//!
//! A table of faults begins with `| fault | …` and has a column for each mode. A table of tests
//! begins with `| shown by | …`: the fault's number, the modes, the tests. A fault has one row.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::File;

const PAGE: &str = "GUARANTEES.md";
const COVERAGE: &str = "docs/coverage.md";

/// What a cell may say; `–` says that the fault does not concern the mode.
const OUTCOMES: [&str; 4] = ["✔", "gap", "neither", "order"];
const NOTHING: &str = "–";

const FAULTS: &str = "fault";
const SHOWN: &str = "shown by";

/// Checks both pages against each other and the functions of the tree.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &*file.text);
    let (Some(page), Some(coverage)) = (text(PAGE), text(COVERAGE)) else {
        return vec![format!("{PAGE} or {COVERAGE} is missing")];
    };
    let sources = files.iter().filter(|file| file.is("rs"));
    let functions: BTreeSet<&str> = sources.flat_map(|file| functions(&file.text)).collect();
    let mut wrong = check_tables(page, coverage);
    for (path, text) in [(PAGE, page), (COVERAGE, coverage)] {
        let unknown = quoted(text).filter(|word| is_test(word) && !functions.contains(*word));
        wrong.extend(unknown.map(|test| format!("{path}: no test `{test}`")));
    }
    let shown: Vec<(&str, &str)> = promises(coverage).collect();
    let said: Vec<&str> = promises(page).map(|(title, _)| title).collect();
    for (at, title) in said.iter().enumerate() {
        let number = at + 1;
        if !title.starts_with(&format!("G{number}.")) {
            wrong.push(format!("{PAGE}: `{title}` should be number G{number}"));
        }
        if !shown.iter().any(|(shown, tests)| shown == title && quoted(tests).next().is_some()) {
            wrong.push(format!("{COVERAGE}: no test of `{title}`"));
        }
    }
    let unsaid = shown.iter().filter(|(title, _)| !said.contains(title));
    wrong.extend(unsaid.map(|(title, _)| format!("{COVERAGE}: `{title}` is no promise")));
    for name in shown.iter().flat_map(|(_, tests)| quoted(tests)) {
        if !is_test(name) && !functions.contains(name) {
            wrong.push(format!("{COVERAGE}: no test `{name}`"));
        }
    }
    if said.is_empty() {
        wrong.push(format!("{PAGE}: no promises (`### G1. …`)"));
    }
    wrong
}

/// The names behind `fn`, except in comments.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let after = lines.filter_map(|line| line.split_once("fn "));
    after.filter_map(|(_, name)| name.split(['(', '<']).next())
}

/// The sections of a page that are promises: title and text.
fn promises(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let sections = page.split("\n#").map(|section| section.trim_start_matches('#').trim_start());
    let titled = sections.filter_map(|section| section.split_once('\n'));
    titled.filter(|(title, _)| {
        let number = title.strip_prefix('G').and_then(|rest| rest.split_once('.'));
        number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    })
}

/// The texts in backquotes, without the names of modules before them.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(|name| name.rsplit("::").next().unwrap_or(name))
}

/// Whether a word on a page is the name of a test, which is a sentence.
fn is_test(word: &str) -> bool {
    let is_name = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name && word.matches('_').count() > 3
}

/// Cells by the fault's number and the mode.
type Cells<'a> = BTreeMap<(&'a str, &'a str), &'a str>;

/// The mistakes in the tables. Whether the tests exist is checked with all other tests.
fn check_tables(page: &str, coverage: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut open = Cells::new();
    for table in tables(page) {
        if let Some(([FAULTS, columns @ ..], rows)) = table.split_first().map(|(h, r)| (&h[..], r))
        {
            let more = cells(columns, rows, &mut wrong);
            let twice = more.keys().filter(|key| open.contains_key(*key));
            wrong.extend(twice.map(|(fault, mode)| format!("{fault}, {mode}: said twice")));
            open.extend(more);
        }
    }
    for table in tables(coverage).iter().filter(|table| table.first().is_some_and(is_shown)) {
        for row in &table[1..] {
            wrong.extend(show(&mut open, row));
        }
    }
    wrong.extend(unshown(&open));
    wrong
}

fn is_shown(header: &Vec<&str>) -> bool {
    header.first() == Some(&SHOWN)
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

/// Removes the cells that a row shows from the cells that must still be shown.
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

    fn wrong(page: &str, coverage: &str) -> Vec<String> {
        check(&[
            File::new(PAGE, page),
            File::new(COVERAGE, coverage),
            File::new("tests/a.rs", "fn it_holds() {}\n// fn it_does_not()\n"),
        ])
    }

    const PROMISE: &str = "# Promises\n\n### G1. It holds\n\nAlways.\n";

    #[test]
    fn a_promise_whose_test_exists_passes() {
        assert_eq!(wrong(PROMISE, "# Tests\n\n### G1. It holds\n\n- `a::it_holds`\n"), [""; 0]);
    }

    #[test]
    fn a_promise_without_a_real_test_fails() {
        let missing = "\n### G1. It holds\n\n- `it_holds`\n- `it_does_not`\n";
        assert_eq!(wrong(PROMISE, missing), ["docs/coverage.md: no test `it_does_not`"]);
        assert_eq!(wrong(PROMISE, "\n"), ["docs/coverage.md: no test of `G1. It holds`"]);
        let shown = "\n### G1. It holds\n\n- `it_holds`\n";
        assert!(wrong("# Promises\n", shown)[0].contains("is no promise"));
        let skipped = wrong(&PROMISE.replace("G1", "G2"), &shown.replace("G1", "G2"));
        assert!(skipped[0].contains("should be number G1"), "{skipped:?}");
        assert!(wrong("# Promises\n", "\n")[0].contains("no promises"));
        let in_the_text = format!("Broken by `it_is_broken_by_this`.\n{PROMISE}");
        assert_eq!(wrong(&in_the_text, shown), ["GUARANTEES.md: no test `it_is_broken_by_this`"]);
        assert!(check(&[])[0].contains("missing"));
    }

    const SAID: &str = "| fault | one | two |\n|---|---|---|\n| C1 it burns | ✔ | – |\n\n";

    #[test]
    fn a_cell_that_a_test_shows_passes() {
        let shown = "| shown by | modes | tests |\n|---|---|---|\n| C1 | one | `it_holds` |\n";
        assert_eq!(check_tables(SAID, shown), [""; 0]);
    }

    #[test]
    fn a_cell_without_a_test_and_a_test_without_a_cell_fail() {
        let header = "| shown by | modes | tests |\n|---|---|---|\n";
        assert!(check_tables(SAID, "")[0].contains("shown by no test"));
        let missing = check_tables(SAID, &format!("{header}| C1 | one | see above |\n"));
        assert!(missing[0].contains("no test is named"), "{missing:?}");
        let unsaid = check_tables(SAID, &format!("{header}| C1 | one, two | `it_holds` |\n"));
        assert!(unsaid[0].contains("not said"), "{unsaid:?}");
        let twice = check_tables(&format!("{SAID}{SAID}"), "");
        assert!(twice[0].contains("said twice"), "{twice:?}");
        let strange = check_tables("| fault | one |\n|---|---|\n| C1 it burns | perhaps |\n", "");
        assert!(strange[0].contains("no outcome"), "{strange:?}");
    }
}
