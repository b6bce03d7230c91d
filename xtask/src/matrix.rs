//! The tables of GUARANTEES.md: each cell that says something is shown by a test that is named.
//!
//! A table begins with `| fault | …` and has a column for each mode. The table of its tests
//! begins with `| shown by | …`: the fault's number, the modes, the tests.

use std::collections::BTreeMap;

/// What a cell may say; `–` says that the fault does not concern the mode.
const OUTCOMES: [&str; 4] = ["✔", "gap", "neither", "order"];
const NOTHING: &str = "–";

const FAULTS: &str = "fault";
const TESTS: &str = "shown by";

/// Cells by the fault's number and the mode.
type Cells<'a> = BTreeMap<(&'a str, &'a str), &'a str>;

/// What is wrong with the tables of the page. Whether the tests exist is checked with all others.
pub(crate) fn check(page: &str) -> Vec<String> {
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
            TESTS => {
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

    const SAID: &str = "| fault | one | two |\n|---|---|---|\n| C1 it burns | ✔ | – |\n\n";

    #[test]
    fn a_cell_that_a_test_shows_passes() {
        let shown = "| shown by | modes | tests |\n|---|---|---|\n| C1 | one | `it_holds` |\n";
        assert_eq!(check(&format!("{SAID}{shown}")), [""; 0]);
    }

    #[test]
    fn a_cell_without_a_test_and_a_test_without_a_cell_fail() {
        let header = "| shown by | modes | tests |\n|---|---|---|\n";
        assert!(check(SAID)[0].contains("shown by no test"));
        let missing = check(&format!("{SAID}{header}| C1 | one | see above |\n"));
        assert!(missing[0].contains("no test is named"), "{missing:?}");
        let unsaid = check(&format!("{SAID}{header}| C1 | one, two | `it_holds` |\n"));
        assert!(unsaid[0].contains("not said"), "{unsaid:?}");
        let strange = check("| fault | one |\n|---|---|\n| C1 it burns | perhaps |\n");
        assert!(strange[0].contains("no outcome"), "{strange:?}");
    }
}
