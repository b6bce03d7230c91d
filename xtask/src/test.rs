//! `cargo xtask test`: the whole mandatory suite, in the order in which mistakes are cheapest.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::command::{Counts, Run};
use crate::mutants::{self, Extent};
use crate::outcome::Outcome;
use crate::{
    api, campaign, fuzz, layers, mixed, needs, packages, publish, servers, test_programs, tidy,
};

/// How the tests are asked for longer random runs: some 25 times as long as without.
const LONG: [(&str, &str); 6] = [
    ("LEASEHOLD_DIFFERENTIAL_STEPS", "5000000"), // histories of the scripts beside the model
    ("LEASEHOLD_LARGE_WORLDS", "yes"),           // model checks that take minutes
    ("LEASEHOLD_SCHEDULES", "2500"),             // orders in which threads go on, of each kind
    ("LEASEHOLD_SEEDS", "150"),                  // simulations with faults
    (campaign::SPAN, "250s"),                    // the campaign, each topology
    ("PROPTEST_CASES", "6400"),                  // every other property
];

/// The library.
const LIBRARY: &str = "crates/leasehold";

/// A store of somebody else's, in a workspace of its own.
const OWN_STORE: &str = "examples/own_store";

/// Programs outside the workspace that export metrics and traces.
const OBSERVING: &str = "examples/observing";

/// The packages whose features are checked one by one.
const FEATURED: [&str; 2] = ["leasehold", "leasehold-data"];

/// The packages of the tests that start servers, and how they are told which.
const STORES: [&str; 4] = ["--package", "leasehold-tests", "--package", "leasehold-data"];
const SERVER_PROGRAM: &str = "LEASEHOLD_TEST_SERVER";

/// How long the tests of the mandatory suite may take, as `timeout` takes it: ten times as long as
/// they do.
const MANDATORY_LIMIT: &str = "50m";

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// The mandatory suite with long random runs.
    Long,
    /// Every named scenario once.
    Mandatory,
}

/// Runs the suite; stops at the first step that fails.
pub(crate) fn run(root: &Path, length: Length) -> Outcome {
    let mut steps = Steps::default();
    steps.run("needs", || needs::components(root))?;
    steps.run("needs", needs::redis_server)?;
    steps.run("needs", needs::faketime)?;
    steps.run("needs", needs::browser)?;
    let mut left_out = steps.run("needs", || mixed::install(root))?;
    left_out.extend(steps.run("needs", || Ok(needs::postgresql().err()))?);
    left_out.extend(steps.run("needs", || Ok(needs::readers()))?);
    steps.run("tidy", || tidy::run(root))?;
    steps.run("layers", || layers::run(root))?;
    steps.run("format", || Run::cargo(root, &["fmt", "--all", "--check"]).show())?;
    steps.run("fuzz", || fuzz::check(root))?;
    steps.run("clippy", || clippy(root))?;
    steps.run("docs", || docs(root))?;
    steps.run("api", || api::check(root))?;
    steps.run("publish", || publish::check(root))?;
    steps.run("examples", || examples(root))?;
    let doctests = steps.run("doctests", || {
        Run::cargo(root, &["test", "--doc", "--workspace", "--all-features", "--locked"]).count()
    })?;
    let own_store = steps.run("own store", || own_store(root))?;
    let observing = steps.run("observing", || observing(root))?;
    let tests = steps.run("tests", || tests(root, length))?;
    steps.run("mutants", || mutants::run(root, Extent::Listed, &[]))?;
    let counts = doctests + own_store + observing + tests;
    if counts.passed == 0 {
        return Err("tests: not one was run".to_owned());
    }
    for what in left_out {
        println!("left out: {what}");
    }
    println!("seconds: {steps}");
    println!(
        "test result: ok. {counts}; {} of them doctests; in {} s",
        doctests.passed,
        steps.seconds()
    );
    Ok(())
}

/// Runs the tests of stores once on every server that was fetched, all of them to the end.
pub(crate) fn on_every_server(root: &Path) -> Outcome {
    needs::faketime()?;
    let programs = servers::fetched(root);
    if programs.is_empty() {
        return Err("no server in `target/servers`: run `cargo xtask servers`".to_owned());
    }
    let runner: &[&str] = match needs::has_nextest(root) {
        true => &["nextest", "run", "--no-fail-fast"],
        false => &["test", "--tests", "--no-fail-fast"],
    };
    let arguments = [runner, &STORES[..], &["--all-features", "--locked"]].concat();
    let on = |program: &Path| {
        let run = Run::cargo(root, &arguments);
        run.with(SERVER_PROGRAM, &program.to_string_lossy()).count()
    };
    let mut failures = Vec::new();
    for program in programs {
        match on(&program) {
            Ok(counts) if counts.passed == 0 => failures.push("not one test was run".to_owned()),
            Ok(counts) => println!("{}: {counts}", program.display()),
            Err(why) => failures.push(why),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// The steps that have been run, and how many seconds each took.
#[derive(Debug, Default)]
struct Steps(Vec<(&'static str, u64)>);

impl Steps {
    /// Names the step before it runs, says how long it took, and names it in its failure.
    fn run<T>(&mut self, name: &'static str, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        eprintln!("== {name}");
        let begin = Instant::now();
        let outcome = work();
        let seconds = begin.elapsed().as_secs();
        eprintln!("== {name}: {seconds} s");
        match self.0.last_mut().filter(|(last, _)| *last == name) {
            Some((_, sum)) => *sum += seconds,
            None => self.0.push((name, seconds)),
        }
        outcome.map_err(|why| if why.starts_with(name) { why } else { format!("{name}: {why}") })
    }

    fn seconds(&self) -> u64 {
        self.0.iter().map(|(_, seconds)| seconds).sum()
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.0.iter().map(|(name, seconds)| format!("{name} {seconds}"));
        f.write_str(&steps.collect::<Vec<_>>().join(", "))
    }
}

/// Warnings are denied everywhere; the libraries also with no feature and with each alone.
fn clippy(root: &Path) -> Outcome {
    let clippy = |what: &[&str]| {
        let (begin, end) = (["clippy", "--locked", "--all-targets"], ["--", "--deny", "warnings"]);
        Run::cargo(root, &[&begin, what, &end].concat()).show()
    };
    clippy(&["--workspace", "--all-features"])?;
    for package in FEATURED {
        let alone = ["--package", package, "--no-default-features"];
        clippy(&alone)?;
        for feature in packages::features(root, package)? {
            clippy(&[&alone[..], &["--features", &feature]].concat())?;
        }
    }
    Ok(())
}

fn docs(root: &Path) -> Outcome {
    // The command and the library share a name, so the command's own pages are left out.
    let arguments = ["doc", "--workspace", "--lib", "--no-deps", "--all-features", "--locked"];
    Run::cargo(root, &arguments).with("RUSTDOCFLAGS", "--deny warnings").show()
}

/// Runs every example of the library: an example that does not run is worse than none.
fn examples(root: &Path) -> Outcome {
    let directory = root.join(LIBRARY).join("examples");
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned()))
        .collect();
    names.sort();
    for name in names {
        let arguments = ["run", "--quiet", "--locked", "--package", "leasehold", "--example"];
        Run::cargo(root, &[&arguments[..], &[&name]].concat()).show()?;
    }
    Ok(())
}

/// The test of a store outside the workspace, which has what leasehold publishes and no more. It
/// is built of the same versions as the rest, and beside it.
fn own_store(root: &Path) -> Outcome<Counts> {
    let (package, lock) = (root.join(OWN_STORE), "Cargo.lock");
    let copied = fs::copy(root.join(lock), package.join(lock));
    copied.map_err(|error| format!("{OWN_STORE}/{lock}: {error}"))?;
    let manifest = format!("{OWN_STORE}/Cargo.toml");
    let arguments = ["test", "--offline", "--target-dir", "target", "--manifest-path", &manifest];
    Run::cargo(root, &arguments).with("CARGO_PROFILE_DEV_DEBUG", "0").count()
}

/// The programs that export metrics and traces, with exporters that nobody else needs.
fn observing(root: &Path) -> Outcome<Counts> {
    let manifest = format!("{OBSERVING}/Cargo.toml");
    Run::cargo(root, &["fmt", "--check", "--manifest-path", &manifest]).show()?;
    let arguments = ["test", "--locked", "--target-dir", "target", "--manifest-path", &manifest];
    Run::cargo(root, &arguments).with("CARGO_PROFILE_DEV_DEBUG", "0").count()
}

/// Every test but the doctests. The programs come first: tests start them.
fn tests(root: &Path, length: Length) -> Outcome<Counts> {
    let everything = ["--workspace", "--all-features", "--locked"];
    Run::cargo(root, &[&["build", "--bins"], &everything[..]].concat()).show()?;
    let (profile, limit, environment): (&[&str], _, &[_]) = match length {
        Length::Long => (&["--profile", "long"], None, &LONG),
        Length::Mandatory => (&[], Some(MANDATORY_LIMIT), &[]),
    };
    if !needs::has_nextest(root) {
        let selected = [&["--lib", "--bins", "--tests"], &everything[..]].concat();
        return test_programs::run(root, &selected, limit, environment);
    }
    let arguments = [&["nextest", "run", "--no-fail-fast"], profile, &everything].concat();
    let run = match limit {
        None => Run::cargo(root, &arguments),
        Some(limit) => Run::cargo_within(limit, root, &arguments),
    };
    environment.iter().fold(run, |run, (name, value)| run.with(name, value)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_named() {
        let failed: Outcome =
            Steps::default().run("docs", || Err("`cargo doc` (exit status: 1)".to_owned()));
        assert_eq!(failed, Err("docs: `cargo doc` (exit status: 1)".to_owned()));
    }

    #[test]
    fn the_seconds_of_every_step_are_told_and_those_of_one_name_together() {
        let steps = Steps(vec![("tidy", 2), ("tests", 90)]);
        assert_eq!((steps.to_string().as_str(), steps.seconds()), ("tidy 2, tests 90", 92));
        let mut steps = Steps::default();
        for name in ["needs", "needs", "tidy"] {
            steps.run(name, || Ok(())).unwrap();
        }
        assert_eq!(steps.to_string(), "needs 0, tidy 0");
    }
}
