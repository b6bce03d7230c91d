//! Running a program: said before, shown while it runs, and read for the summary it prints.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::outcome::Outcome;

/// A program to run, and its words as a person would type them.
#[derive(Debug)]
pub(crate) struct Run {
    command: Command,
    words: String,
}

/// What test runners report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Run {
    /// The cargo that runs this task, in the root of the workspace.
    pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Self {
        let mut command = as_typed(Command::new(cargo()));
        command.args(arguments).current_dir(root);
        Self { command, words: format!("cargo {}", arguments.join(" ")) }
    }

    /// The same, ended with all that it started after a time limit as `timeout` takes it: what
    /// hangs is then named in the output, and does not hold up whoever waits for the result.
    pub(crate) fn cargo_within(limit: &str, root: &Path, arguments: &[&str]) -> Self {
        let mut command = as_typed(Command::new("timeout"));
        command.args(["--kill-after=30s", limit]).arg(cargo()).args(arguments).current_dir(root);
        Self { command, words: format!("timeout {limit} cargo {}", arguments.join(" ")) }
    }

    /// Another program.
    pub(crate) fn program(name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(name);
        command.args(arguments);
        Self { command, words: format!("{name} {}", arguments.join(" ")) }
    }

    /// The same with a variable in its environment.
    pub(crate) fn with(mut self, variable: &str, value: &str) -> Self {
        self.command.env(variable, value);
        self.words = format!("{variable}='{value}' {}", self.words);
        self
    }

    /// The same in another directory.
    pub(crate) fn within(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// What it is, as a person would type it.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Runs it and returns what it says; its complaint becomes part of the error.
    pub(crate) fn read(mut self) -> Outcome<String> {
        let (program, _) = self.words.split_once(' ').unwrap_or((&self.words, ""));
        let output = self.command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("`{program}`: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        // apt-get marks its errors, and says more than one line about each.
        let line = complaint.lines().find(|line| line.starts_with("E: "));
        let line = line.or(complaint.lines().last()).unwrap_or_default();
        Err(format!("`{program}` ({}): {line}", output.status))
    }

    /// Whether it starts and succeeds; shows nothing.
    pub(crate) fn works(mut self) -> bool {
        let (none, out, err) = (Stdio::null(), Stdio::null(), Stdio::null());
        self.command.stdin(none).stdout(out).stderr(err).status().is_ok_and(|end| end.success())
    }

    /// Runs it with its output shown.
    pub(crate) fn show(mut self) -> Outcome {
        eprintln!("$ {}", self.words);
        let end = self.command.stdin(Stdio::null()).status();
        let end = end.map_err(|error| format!("`{}`: {error}", self.words))?;
        if end.success() { Ok(()) } else { Err(format!("`{}` ({end})", self.words)) }
    }

    /// Runs a test runner with its output shown, and adds up the counts it reports.
    pub(crate) fn count(mut self) -> Outcome<Counts> {
        eprintln!("$ {}", self.words);
        let command = self.command.stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("`{}`: {error}", self.words))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let counts = thread::scope(|scope| {
            let out = scope.spawn(|| out.map_or_else(Counts::default, |out| relay(out, Side::Out)));
            let err = err.map_or_else(Counts::default, |err| relay(err, Side::Err));
            out.join().unwrap_or_default() + err
        });
        let end = child.wait().map_err(|error| format!("`{}`: {error}", self.words))?;
        if end.success() { Ok(counts) } else { Err(format!("`{}` ({end})", self.words)) }
    }
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Without the variables by which cargo tells this program which package it is. Build scripts look
/// at some of them: what `cargo xtask` builds would be built anew by a `cargo` that is typed, and
/// the other way round.
fn as_typed(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Err,
    Out,
}

/// Passes lines on as they come, and adds up the counts in them.
fn relay(from: impl Read, side: Side) -> Counts {
    let mut counts = Counts::default();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        match side {
            Side::Err => eprintln!("{line}"),
            Side::Out => println!("{line}"),
        }
        counts = counts + Counts::of_line(&line).unwrap_or_default();
    }
    counts
}

impl Counts {
    /// Reads the summary line of libtest (`test result: ok. 3 passed; 0 failed; 1 ignored; …`) or
    /// of nextest (`Summary [ 1.2s] 4 tests run: 3 passed (1 slow), 1 failed, 2 skipped`).
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let numbers = match line.strip_prefix("test result: ") {
            Some(rest) => rest,
            None => line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?.1,
        };
        let words: Vec<&str> =
            numbers.split([' ', ';', ',', '.', '(', ')']).filter(|word| !word.is_empty()).collect();
        let before = |what: &str| -> u64 {
            let pairs = words.windows(2).filter(|pair| pair[1] == what);
            pairs.filter_map(|pair| pair[0].parse::<u64>().ok()).sum()
        };
        Some(Self {
            passed: before("passed"),
            failed: before("failed") + before("timed"),
            ignored: before("ignored") + before("skipped"),
        })
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            ignored: self.ignored + other.ignored,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed; {} failed; {} ignored", self.passed, self.failed, self.ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, ignored: u64) -> Option<Counts> {
        Some(Counts { passed, failed, ignored })
    }

    #[test]
    fn both_runners_are_understood() {
        let libtest = "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 1 filtered out";
        assert_eq!(Counts::of_line(libtest), counts(12, 0, 3));
        let nextest =
            "     Summary [   0.05s] 17 tests run: 15 passed (2 slow), 2 failed, 4 skipped";
        assert_eq!(Counts::of_line(nextest), counts(15, 2, 4));
        assert_eq!(Counts::of_line("test tests::a_name ... ok"), None);
        assert_eq!(Counts::of_line("Summary of what was run"), None);
        let within = "    test result: FAILED. 0 passed; 1 failed; 0 ignored";
        assert_eq!(Counts::of_line(within), None, "nextest repeats what a failed test printed");
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_words() {
        let failed = Run::program("false", &["--loudly"]).show();
        assert!(failed.is_err_and(|why| why.contains("`false --loudly`")));
        assert!(!Run::program("no-such-program-anywhere", &[]).works());
    }

    #[test]
    fn a_cargo_is_not_told_which_package_this_program_is() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "cargo tells it");
        let run = Run::cargo(Path::new("."), &["--version"]);
        let is_removed = |name: &str| run.command.get_envs().any(|it| it == (name.as_ref(), None));
        assert!(is_removed("CARGO_MANIFEST_DIR") && is_removed("CARGO_PKG_NAME"));
    }

    #[test]
    fn counts_are_read_from_the_output_of_a_program() {
        let line = "test result: ok. 2 passed; 0 failed; 1 ignored";
        assert_eq!(Run::program("echo", &[line]).count().ok(), counts(2, 0, 1));
    }
}
