//! The programs that hold the tests, some of them at a time: while the last tests of one wait for a
//! lease to end, those of the next run. `cargo test` runs one after the other.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::command::Counts;
use crate::outcome::Outcome;

/// How many programs run at the same time, and how many tests of each. Most tests wait for a server
/// or for a lease to end; with more, two processors stall those that do not.
const PROGRAMS: usize = 2;
const THREADS: &str = "3";

/// The packages whose programs take longest, in the order in which they begin: what runs last
/// should be short, since nothing runs beside it.
const LONGEST: [&str; 2] = ["leasehold-cli", "tests"];

/// What a program with tests is built of, and where it runs.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    package: PathBuf,
}

/// Builds the tests that these arguments select, and runs all of them to the end. `limit` is how
/// long one program may take, as `timeout` takes it.
pub(crate) fn run(
    root: &Path,
    selected: &[&str],
    limit: Option<&str>,
    environment: &[(&str, &str)],
) -> Outcome<Counts> {
    let programs = Mutex::new(build(root, selected)?);
    let next = || programs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let (mut counts, mut failed) = (Counts::default(), Vec::new());
        while let Some(program) = next() {
            let report = program.run(limit, environment)?;
            counts = counts + report.counts();
            if report.succeeded {
                println!("{report}");
            } else {
                failed.push(report);
            }
        }
        Ok::<_, String>((counts, failed))
    };
    let (mut counts, mut failed) = (Counts::default(), Vec::new());
    let ended = thread::scope(|scope| {
        let workers: Vec<_> = (0..PROGRAMS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for worker in ended {
        let (seen, reports) = worker.map_err(|_| "a worker panicked".to_owned())??;
        counts = counts + seen;
        failed.extend(reports);
    }
    // Whoever sees only the end of a log sees what failed.
    failed.iter().for_each(|report| println!("{report}"));
    let names: Vec<_> = failed.iter().map(Report::failures).collect();
    if names.is_empty() { Ok(counts) } else { Err(format!("failed: {}", names.join("; "))) }
}

/// Has cargo build the programs, and name them.
fn build(root: &Path, selected: &[&str]) -> Outcome<VecDeque<Program>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(selected);
    eprintln!("$ cargo test --no-run {}", selected.join(" "));
    let output = command.current_dir(root).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("`cargo test`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo test --no-run` ({})", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<_> = text.lines().filter_map(Program::of_message).collect();
    programs.sort_by_key(|program: &Program| {
        LONGEST
            .iter()
            .position(|package| program.package.ends_with(package))
            .unwrap_or(LONGEST.len())
    });
    Ok(programs.into())
}

impl Program {
    /// The program that a message of cargo is about, if it is about one with tests.
    fn of_message(message: &str) -> Option<Self> {
        let text = |field: &str| {
            let (_, rest) = message.split_once(&format!("\"{field}\":\""))?;
            rest.split_once('"').map(|(text, _)| PathBuf::from(text))
        };
        let has_tests = message.contains("\"test\":true},\"features\"");
        let package = text("manifest_path")?.parent()?.to_owned();
        text("executable").filter(|_| has_tests).map(|path| Self { path, package })
    }

    /// Runs it to its end.
    fn run(&self, limit: Option<&str>, environment: &[(&str, &str)]) -> Outcome<Report> {
        let mut command = match limit {
            Some(limit) => {
                let mut command = Command::new("timeout");
                command.args(["--kill-after=30s", limit]).arg(&self.path);
                command
            }
            None => Command::new(&self.path),
        };
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command.env("RUST_TEST_THREADS", THREADS).envs(environment.iter().copied());
        let begin = Instant::now();
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let ending = format!("{} s, {}", begin.elapsed().as_secs(), output.status);
        Ok(Report {
            program: self.path.clone(),
            tests: String::from_utf8_lossy(&output.stdout).into_owned(),
            messages: String::from_utf8_lossy(&output.stderr).into_owned(),
            ending,
            succeeded: output.status.success(),
        })
    }
}

/// What a program with tests printed, and how it ended.
#[derive(Debug)]
struct Report {
    program: PathBuf,
    tests: String,
    messages: String,
    ending: String,
    succeeded: bool,
}

impl Report {
    fn counts(&self) -> Counts {
        self.tests.lines().filter_map(Counts::of_line).fold(Counts::default(), |a, b| a + b)
    }

    /// The program and its tests that failed.
    fn failures(&self) -> String {
        let failed = |line: &'_ str| {
            let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
            Some(name.to_owned())
        };
        let names: Vec<_> = self.tests.lines().filter_map(failed).collect();
        format!("{}: {}", self.program.display(), names.join(", "))
    }
}

/// The tests come last, and what failed at their end.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}: {}", self.messages, self.tests, self.program.display(), self.ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_with_tests_are_found_among_the_messages_of_cargo() {
        let message = |test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/tests/Cargo.toml\",\
                 \"target\":{{\"name\":\"cluster\",\"test\":true}},\"profile\":{{\"test\":{test}}},\
                 \"features\":[],\"executable\":\"/t/cluster-1\",\"fresh\":true}}"
            )
        };
        let expected = Program { path: "/t/cluster-1".into(), package: "/w/tests".into() };
        assert_eq!(Program::of_message(&message(true)), Some(expected));
        assert_eq!(Program::of_message(&message(false)), None);
        assert_eq!(Program::of_message("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }

    #[test]
    fn a_program_that_failed_is_reported_with_the_names_of_its_tests() {
        let report = Report {
            program: "/t/cluster-1".into(),
            tests: "test a ... ok\ntest b::c ... FAILED\ntest d ... FAILED\n".to_owned(),
            messages: String::new(),
            ending: "1 s, exit status: 101".to_owned(),
            succeeded: false,
        };
        assert_eq!(report.failures(), "/t/cluster-1: b::c, d");
    }
}
