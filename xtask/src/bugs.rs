//! `cargo xtask bugs`: each named bug is switched on, and its tests must fail.

use std::sync::{Mutex, PoisonError};

use crate::programs::{self, Job, Program};
use crate::run::Outcome;

/// The list of the bugs, and the table of the tests that find them.
const CATALOGUE: &str = include_str!("../../crates/leasehold-core/src/bugs.rs");
const TABLE: &str = include_str!("../../evidence/bugs.txt");

/// The variable that turns a bug on. Then a shorter history, which is enough for each bug. Last, a
/// failure that random tests find with a bug is no regression to keep.
const BUG: &str = "LEASEHOLD_BUG";
const SHORT: (&str, &str) = ("LEASEHOLD_DIFFERENTIAL_STEPS", "20000");
const KEEP_NOTHING: (&str, &str) = ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");

/// How long the tests of one bug may take, in the form of `timeout`. With the bug they may hang,
/// which counts as found. Without it they take some seconds.
const LIMIT: &str = "90s";

/// A line of the table: the bug, a package, its program, what the names of the tests contain.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|row| !row.is_empty())
}

/// The names of all bugs, from `Bug = "name",` in the catalogue.
fn catalogue() -> Vec<&'static str> {
    let name = |line: &'static str| line.strip_suffix("\",")?.split_once(" = \"").map(|it| it.1);
    CATALOGUE.lines().filter_map(name).filter(|name| !name.contains(' ')).collect()
}

/// Switches on the named bugs, or all of them, and says which test found each. The suite has run
/// the same tests without bugs before.
pub(crate) fn run(programs: &[Program], names: &[&str]) -> Outcome {
    let known = catalogue();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no bug {unknown}: there are {}", known.join(", ")));
    }
    let mut jobs = Vec::new();
    for row in rows().filter(|row| names.is_empty() || names.contains(&row[0])) {
        let program = programs.iter().find(|it| [&*it.package, &*it.target] == row[1..3]);
        let program =
            program.ok_or_else(|| format!("evidence/bugs.txt: {}: no program", row[0]))?;
        let environment = vec![(BUG, row[0]), SHORT, KEEP_NOTHING];
        jobs.push(Job { program, words: row[3..].to_vec(), environment, limit: LIMIT });
    }
    let survivors = Mutex::new(Vec::new());
    programs::run(jobs, |job, report| {
        let ((_, bug), seconds) = (job.environment[0], report.seconds);
        if report.succeeded {
            println!("{bug}: SURVIVED in {seconds:.1} s");
            survivors.lock().unwrap_or_else(PoisonError::into_inner).push(bug.to_owned());
        } else {
            let found = report.failed().first().map_or("no end", |test| *test).to_owned();
            println!("{bug}: found by {} {found} in {seconds:.1} s", job.program.target);
        }
    })?;
    let survivors = survivors.into_inner().unwrap_or_else(PoisonError::into_inner);
    if survivors.is_empty() {
        return Ok(());
    }
    Err(format!("no test found {}", survivors.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_row() {
        let mut names = catalogue();
        names.sort_unstable();
        assert_eq!(rows().map(|row| row[0]).collect::<Vec<_>>(), names);
    }
}
