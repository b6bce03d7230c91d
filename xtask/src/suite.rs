//! `cargo xtask test`: the whole mandatory suite, in the order in which mistakes are cheapest, and
//! `cargo xtask quick`: the part of it that takes less than three minutes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::programs::{self, Job, Program};
use crate::run::{Outcome, Run};
use crate::{api, bugs, layers, needs, python, tidy};

/// How the tests are asked for longer random runs: at least 25 times as long as without.
const LONG: [(&str, &str); 6] = [
    ("LEASEHOLD_CAMPAIGN", "250s"),              // each topology
    ("LEASEHOLD_DIFFERENTIAL_STEPS", "5000000"), // histories of the scripts beside the model
    ("LEASEHOLD_LARGE_WORLDS", "yes"),           // model checks that take minutes
    ("LEASEHOLD_SCHEDULES", "2500"),             // orders in which threads go on, of each kind
    ("LEASEHOLD_SEEDS", "150"),                  // simulations with faults
    ("PROPTEST_CASES", "6400"),                  // every other property
];

/// Warnings are errors, also in the code for tests.
const DENIED: [&str; 7] =
    ["--", "--deny", "warnings", "--cfg", "leasehold_test_bugs", "--cfg", "fuzzing"];

/// Runs the suite; stops at the first step that fails.
///
/// Tests wait more than they compute. So what only a compiler checks, and is rarely wrong, is
/// checked beside them, with what processor time they leave. What is not built in `target/debug`
/// begins first.
pub(crate) fn run(is_long: bool) -> Outcome {
    let (steps, begin) = (Steps::default(), Instant::now());
    let apart = Run::program("nice", &["tests/resolves.sh"]);
    let apart = || steps.run("resolves", || apart.show());
    let ((), [tested, documented]) = together(apart, || checked(&steps, is_long))?;
    println!("seconds: {}", steps.words());
    let [passed, failed, ignored] = [0, 1, 2].map(|at| tested[at] + documented[at]);
    println!(
        "test result: ok. {passed} passed; {failed} failed; {ignored} ignored; {} of them \
         doctests; in {} s",
        documented[0],
        begin.elapsed().as_secs()
    );
    Ok(())
}

/// What is built in the directory of the workspace. Returns the tests and the doctests, counted.
fn checked(steps: &Steps, is_long: bool) -> Outcome<[[u64; 3]; 2]> {
    // Downloads wait for the network and compilers for processors, so both run at the same time.
    let (python, programs) = together(
        || {
            steps.run("needs", needs::install)?;
            steps.run("peers", || Run::program("tests/peers/install.sh", &[]).show())?;
            steps.run("python", python::Tools::install)
        },
        || {
            steps.run("tidy", tidy::run)?;
            steps.run("layers", layers::run)?;
            steps.run("format", format)?;
            steps.run("build", programs::build)
        },
    )?;
    let compiled = || {
        // What this thread starts from now on gets what processor time others leave.
        Run::program("sh", &["-c", "renice -n 10 -p $PPID"]).works();
        let counts = steps.run("docs", api::check)?;
        steps.run("bare library", bare_library).map(|()| counts)
    };
    let environment: &[_] = if is_long { &LONG } else { &[] };
    let tested = || {
        let counts = steps.run("tests", || tests(&programs, environment))?;
        steps.run("bugs", || bugs::run(&programs, &[])).map(|()| counts)
    };
    let in_python = || steps.run("tests in Python", || python.test_compiled());
    let ((), (tested, documented)) = together(in_python, || together(tested, compiled))?;
    Ok([tested, documented])
}

/// Runs two pieces of work at the same time, to the end of both.
fn together<A: Send, B>(
    beside: impl FnOnce() -> Outcome<A> + Send,
    work: impl FnOnce() -> Outcome<B>,
) -> Outcome<(A, B)> {
    thread::scope(|scope| {
        let beside = scope.spawn(beside);
        let done = work()?;
        Ok((beside.join().map_err(|_| "a step panicked".to_owned())??, done))
    })
}

/// Compiles the library with each of its features alone.
fn bare_library() -> Outcome {
    let bare = ["clippy", "--locked", "--package", "leasehold", "--no-default-features"];
    ["serde", "file", "postgres", "redis"].iter().try_for_each(|alone| {
        Run::cargo(&[&bare[..], &["--features", alone], &DENIED].concat()).show()
    })
}

/// The steps to run at each change: under three minutes, once everything has been built.
pub(crate) fn quick() -> Outcome {
    let steps = Steps::default();
    steps.run("format", format)?;
    steps.run("clippy", clippy)?;
    // The same packages each time, so that each is built once.
    let test = |what: &[&str]| {
        let packages = ["leasehold", "leasehold-core", "leasehold-tests"];
        let packages = packages.into_iter().flat_map(|name| ["--package", name]);
        let test = ["test", "--all-features", "--locked"].into_iter().chain(packages);
        Run::cargo(&test.chain(what.iter().copied()).collect::<Vec<_>>()).show()
    };
    steps.run("unit tests", || test(&["--lib"]))?;
    let stores = ["--test", "conformance", "--", "memory::", "file::"];
    steps.run("conformance", || test(&stores))?;
    println!("seconds: {}", steps.words());
    Ok(())
}

fn format() -> Outcome {
    Run::cargo(&["fmt", "--all", "--check"]).show()
}

fn clippy() -> Outcome {
    let words = ["clippy", "--all-targets", "--workspace", "--all-features", "--locked"];
    Run::cargo(&[&words[..], &DENIED].concat()).show()
}

/// Runs every test except doctests, and every example: a broken example is worse than none.
///
/// A test that fails while others run is run once more by itself. If it passes then, it is named
/// with its output, as a defect to look into. So bad luck does not hide the other results.
fn tests(programs: &[Program], environment: &[(&'static str, &'static str)]) -> Outcome<[u64; 3]> {
    let sum = Mutex::new(([0; 3], Vec::new()));
    let whole = programs.iter().map(Program::whole);
    let jobs = whole.map(|job| Job { environment: environment.to_vec(), ..job });
    programs::run(jobs.collect(), |job, report| {
        let counts = report.counts();
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.0 = [0, 1, 2].map(|at| sum.0[at] + counts[at]);
        if report.succeeded {
            println!("{}{}: {:.0} s", report.text, job.program, report.seconds);
        } else {
            sum.1.push((job.clone(), report));
        }
    })?;
    let (mut counts, failed) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut names = Vec::new();
    // Printed last, for a reader of only the end of a log.
    for (job, report) in &failed {
        let tests = report.failed();
        let again = if tests.is_empty() { None } else { Some(job.alone(&tests).run()?) };
        let name = format!("{}: {}", job.program, tests.join(", "));
        if again.is_some_and(|again| again.succeeded && again.counts()[0] == tests.len() as u64) {
            println!("{}\nunsteady: {name}: failed beside the others, passed alone", report.said());
            counts[0] += tests.len() as u64;
            counts[1] -= report.counts()[1];
        } else {
            println!("{}", report.text);
            names.push(name);
        }
    }
    match names.is_empty() {
        true if counts[0] == 0 => Err("not one was run".to_owned()),
        true => Ok(counts),
        false => Err(format!("failed: {}", names.join("; "))),
    }
}

/// The steps that have been run, and how many seconds each took.
#[derive(Debug, Default)]
struct Steps(Mutex<Vec<String>>);

impl Steps {
    /// Names the step before it runs, says how long it took, and names it in its failure.
    fn run<T>(&self, name: &'static str, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        eprintln!("== {name}");
        let begin = Instant::now();
        let outcome = work();
        let seconds = begin.elapsed().as_secs();
        eprintln!("== {name}: {seconds} s");
        self.taken().push(format!("{name} {seconds}"));
        outcome.map_err(|why| format!("{name}: {why}"))
    }

    fn words(&self) -> String {
        self.taken().join(", ")
    }

    fn taken(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_named_and_the_seconds_of_every_step_are_told() {
        let steps = Steps::default();
        let failed: Outcome = steps.run("docs", || Err("`cargo test` (exit status: 1)".to_owned()));
        assert_eq!(failed, Err("docs: `cargo test` (exit status: 1)".to_owned()));
        steps.run("tidy", || Ok(())).unwrap();
        assert_eq!(steps.words(), "docs 0, tidy 0");
    }
}
