//! Runs the programs with tests and the examples, several at the same time. Most of them wait for a
//! server or for a lease to end, and `cargo test` runs one after the other.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::run::{Outcome, Run};

/// How many programs run at the same time, and how many tests of the longest and of each other one.
/// The longest waits for processes most of the time, and would go on alone.
const PROGRAMS: usize = 4;
const THREADS: [&str; 2] = ["4", "3"];

/// The longest programs begin first, because little else runs while the last program runs.
const LONGEST: [&str; 7] =
    ["command", "campaign", "differential", "cluster", "postgres", "quorum", "stores"];

/// The time limit of a program: over twice what a slow machine needs. A hanging program is named.
const LIMIT: &str = "20m";

/// A program, its package and its target: `lib`, or the name of what it is built of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    path: String,
    directory: String,
    pub(crate) package: String,
    pub(crate) target: String,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.target)
    }
}

/// The options with which a program is run.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Program,
    pub(crate) words: Vec<&'a str>,
    pub(crate) environment: Vec<(&'a str, &'a str)>,
    pub(crate) limit: &'a str,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) succeeded: bool,
    pub(crate) seconds: f64,
}

/// Builds all programs with tests, all examples and all libraries, with the code for tests, and the
/// programs that tests of their package run.
pub(crate) fn build() -> Outcome<Vec<Program>> {
    let all = ["--lib", "--tests", "--examples"];
    let words = [&["build", "--workspace", "--all-features", "--locked"], &all[..]].concat();
    let format = ["--message-format", "json-render-diagnostics"];
    let (text, succeeded) = Run::cargo(&[&words[..], &format].concat()).for_tests().read()?;
    if !succeeded {
        return Err("`cargo build` failed".to_owned());
    }
    let mut programs: Vec<_> = text.lines().filter_map(Program::of_message).collect();
    let place = |program: &Program| LONGEST.iter().position(|target| program.target == *target);
    programs.sort_by_key(|program| place(program).unwrap_or(LONGEST.len()));
    Ok(programs)
}

impl Program {
    /// The program that a message of cargo is about, if it is one with tests or an example.
    fn of_message(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let target = &message["target"];
        let kind = target["kind"][0].as_str()?;
        if message["profile"]["test"] != true && kind != "example" {
            return None;
        }
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
        // `…/tests#leasehold-tests@0.1.0`, or `…/leasehold#0.1.0`.
        let id = message["package_id"].as_str()?.rsplit_once('#')?.1;
        let package = id.split_once('@').map(|(name, _)| name.to_owned());
        let package = package.or(directory.file_name().map(|it| it.to_string_lossy().into()))?;
        Some(Self {
            path: text(&message["executable"])?,
            directory: directory.to_string_lossy().into_owned(),
            package,
            target: if kind == "lib" { "lib".to_owned() } else { text(&target["name"])? },
        })
    }

    /// The job of the whole program, as `cargo test` would run it.
    pub(crate) fn whole(&self) -> Job<'_> {
        Job { program: self, words: Vec::new(), environment: Vec::new(), limit: LIMIT }
    }
}

/// Runs all jobs to the end, starts them in this order, and passes on the report of each.
pub(crate) fn run<'a>(jobs: Vec<Job<'a>>, heard: impl Fn(&Job<'a>, Report) + Sync) -> Outcome {
    let jobs = Mutex::new(VecDeque::from(jobs));
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Outcome {
        while let Some(job) = next() {
            heard(&job, job.run()?);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..PROGRAMS).map(|_| scope.spawn(work)).collect();
        let mut ends = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ends.try_for_each(|end| end.map_err(|_| "a worker panicked".to_owned())?)
    })
}

impl Job<'_> {
    /// The job of only these tests.
    pub(crate) fn alone<'a>(&'a self, tests: &[&'a str]) -> Job<'a> {
        Job { words: [&["--exact"], tests].concat(), ..self.clone() }
    }

    pub(crate) fn run(&self) -> Outcome<Report> {
        let Self { program, words, environment, limit } = self;
        let words = [&["--kill-after=30s", limit, &program.path][..], words].concat();
        let run = Run::program("timeout", &words).within(Path::new(&program.directory));
        let run = run.with("CARGO_MANIFEST_DIR", &program.directory);
        let run = run.with("RUST_TEST_THREADS", THREADS[(program.target != LONGEST[0]) as usize]);
        let run = environment.iter().fold(run, |run, (name, value)| run.with(name, value));
        let begin = Instant::now();
        let (text, succeeded) = run.record()?;
        Ok(Report { text, succeeded, seconds: begin.elapsed().as_secs_f64() })
    }
}

impl Report {
    /// The names of the tests that failed, or still ran when the program was ended.
    pub(crate) fn failed(&self) -> Vec<&str> {
        let tests: Vec<_> =
            self.text.lines().filter_map(|line| line.strip_prefix("test ")).collect();
        let failed = tests.iter().filter_map(|test| test.strip_suffix(" ... FAILED"));
        let failed = failed.map(|test| test.trim_end_matches(" - should panic"));
        let long = tests.iter().filter_map(|test| test.split_once(" has been running for over "));
        let has_ended = |name: &str| {
            let rest = |test: &&str| Some(test.strip_prefix(name)?.starts_with(" ..."));
            tests.iter().any(|test| rest(test).unwrap_or_default())
        };
        let hung = long.map(|(name, _)| name).filter(|name| !has_ended(name));
        failed.chain(hung).collect()
    }

    /// The output of the tests that failed.
    pub(crate) fn said(&self) -> &str {
        let after = self.text.split_once("\nfailures:\n").map_or("", |(_, after)| after);
        after.split_once("\nfailures:\n").map_or(after, |(said, _)| said)
    }

    /// How many tests passed, failed and were ignored.
    pub(crate) fn counts(&self) -> [u64; 3] {
        counts(&self.text)
    }
}

/// The sum of the lines `test result: ok. 3 passed; 0 failed; 1 ignored; …` of libtest.
pub(crate) fn counts(text: &str) -> [u64; 3] {
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: "));
    let number = |result: &str, what: &str| -> u64 {
        let before = result.split(['.', ';']).find_map(|part| part.trim().strip_suffix(what));
        before.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
    };
    results.fold([0; 3], |[passed, failed, ignored], result| {
        [
            passed + number(result, "passed"),
            failed + number(result, "failed"),
            ignored + number(result, "ignored"),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_with_tests_and_the_examples_are_found_among_the_messages_of_cargo() {
        let message = |kind: &str, test: bool| {
            let program = Program::of_message(&format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/tests/Cargo.toml\",\
                 \"package_id\":\"path+file:///w/tests#leasehold-tests@0.1.0\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"cluster\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":\"/t/cluster-1\"}}"
            ));
            program.map(|program| (program.package, program.target))
        };
        let found = |target: &str| Some(("leasehold-tests".to_owned(), target.to_owned()));
        assert_eq!(message("test", true), found("cluster"));
        assert_eq!(message("lib", true), found("lib"));
        assert_eq!(message("example", false), found("cluster"));
        assert_eq!(message("bin", false), None);
        assert_eq!(Program::of_message("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }

    #[test]
    fn the_tests_that_failed_are_named_and_all_are_counted() {
        let text = "test a ... ok\ntest b::c ... FAILED\ntest d - should panic ... FAILED\n\
                    test e has been running for over 60 seconds\ntest e ... ok\n\
                    test f has been running for over 60 seconds\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n\
                    test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured\n";
        let report = Report { text: text.to_owned(), succeeded: false, seconds: 1.0 };
        assert_eq!(report.failed(), ["b::c", "d", "f"]);
        assert_eq!(report.counts(), [13, 2, 3]);
    }

    #[test]
    fn what_the_tests_that_failed_have_printed_is_between_the_two_lists_of_them() {
        let text = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nno lease\n\n\n\
                    failures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed\n";
        let report = Report { text: text.to_owned(), succeeded: false, seconds: 1.0 };
        assert_eq!(report.said().trim(), "---- a stdout ----\nno lease");
    }
}
