//! The named bugs: each is switched on, and its tests must fail.

use std::path::Path;

use super::programs::{Programs, Ran};
use super::table::{TABLE, Tests, catalogue};
use crate::outcome::Outcome;

/// Which tests are run for each bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Those that find it soonest.
    Listed,
    /// All in their program.
    Whole,
}

/// Switches on one bug after the other, or those that are named, and says which test found it.
pub(crate) fn run(root: &Path, extent: Extent, names: &[&str]) -> Outcome {
    let known = catalogue();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no bug {unknown}: there are {}", known.join(", ")));
    }
    let rows = TABLE.into_iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    let rows: Vec<_> = rows.collect();
    let mut tests: Vec<Tests> = rows.iter().map(|(_, tests)| *tests).collect();
    tests.sort_unstable();
    tests.dedup();
    let programs = Programs::build(root, &tests)?;
    let is_whole = extent == Extent::Whole;
    for tests in tests {
        let Tests { package, target, filter } = tests;
        let Ran { failed, passed, .. } = programs.run(tests, None, is_whole)?;
        if let Some(why) = failed {
            return Err(format!("{package} {target} {filter}: {why}, with no bug switched on"));
        }
        if passed == 0 {
            return Err(format!("{package} {target} {filter}: there is no such test"));
        }
    }
    let mut survivors = Vec::new();
    for (name, tests) in rows {
        let Ran { failed, took, .. } = programs.run(tests, Some(name), is_whole)?;
        let (target, seconds) = (tests.target, took.as_secs_f64());
        match failed {
            Some(test) => println!("{name}: found by {target} {test} in {seconds:.1} s"),
            None => {
                println!("{name}: SURVIVED {target} {} in {seconds:.1} s", tests.filter);
                survivors.push(name);
            }
        }
    }
    if survivors.is_empty() {
        Ok(())
    } else {
        Err(format!("no test found {}", survivors.join(", ")))
    }
}
