//! The programs with the tests of a table, and what comes of running some tests of one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cargo_metadata::Message;

use super::table::Tests;
use crate::outcome::Outcome;

/// The variable that turns a bug on.
const BUG: &str = "LEASEHOLD_BUG";

/// How long random histories of the scripts are where only the listed tests are run: a bug in them
/// is found at once, and the whole takes seconds.
const SHORT: (&str, &str) = ("LEASEHOLD_DIFFERENTIAL_STEPS", "2000");

/// What random tests find with a bug is no regression to keep.
pub(super) const KEEP_NOTHING: (&str, &str) = ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");

/// How long the tests of one row may take, as `timeout` takes it. A bug may let them hang.
const LIMIT: &str = "60s";

/// The same for all tests of a program.
const LONG_LIMIT: &str = "20m";

/// What `timeout` ends with when it had to.
const TIMED_OUT: i32 = 124;

/// The programs with tests, by their package and target.
#[derive(Debug)]
pub(super) struct Programs(BTreeMap<(String, String), Program>);

#[derive(Debug)]
struct Program {
    path: PathBuf,
    package: PathBuf,
}

/// What came of running tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) failed: Option<String>,
    pub(super) passed: usize,
    pub(super) took: Duration,
}

impl Programs {
    /// Builds the programs of these tests, as the suite builds them.
    pub(super) fn build(root: &Path, tests: &[Tests]) -> Outcome<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--no-run", "--locked", "--workspace", "--all-features"]);
        command.args(["--message-format=json-render-diagnostics", "--lib"]);
        let targets: BTreeSet<_> = tests.iter().map(|tests| tests.target).collect();
        for target in targets.into_iter().filter(|target| *target != "lib") {
            command.args(["--test", target]);
        }
        eprintln!("$ cargo test --no-run, with the feature `bugs`");
        let output = command.current_dir(root).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("`cargo test`: {error}"))?;
        if !output.status.success() {
            return Err(format!("`cargo test --no-run` ({})", output.status));
        }
        let mut programs = BTreeMap::new();
        for message in Message::parse_stream(output.stdout.as_slice()) {
            let message = message.map_err(|error| format!("`cargo test`: {error}"))?;
            let Message::CompilerArtifact(artifact) = message else { continue };
            let Some(path) = artifact.executable.filter(|_| artifact.profile.test) else {
                continue;
            };
            let package = artifact.manifest_path.parent().map(PathBuf::from).unwrap_or_default();
            let name = package.file_name().unwrap_or_default().to_string_lossy();
            let name =
                if name == "tests" { "leasehold-tests".to_owned() } else { name.to_string() };
            let target = if artifact.target.is_lib() { "lib" } else { &artifact.target.name };
            programs.insert((name, target.to_owned()), Program { path: path.into(), package });
        }
        Ok(Self(programs))
    }

    /// Runs tests, with a bug or without, to the end; with `all`, all of their program.
    pub(super) fn run(&self, tests: Tests, bug: Option<&str>, all: bool) -> Outcome<Ran> {
        let Tests { package, target, filter } = tests;
        let key = (package.to_owned(), target.to_owned());
        let program = self.0.get(&key);
        let program = program.ok_or_else(|| format!("no tests `{target}` in {package}"))?;
        let limit = if all { LONG_LIMIT } else { LIMIT };
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10s", limit]).arg(&program.path);
        if !all {
            command.env(SHORT.0, SHORT.1).args(Some(filter).filter(|filter| !filter.is_empty()));
        }
        command.current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package);
        command.env(KEEP_NOTHING.0, KEEP_NOTHING.1).env_remove(BUG).envs(bug.map(|bug| (BUG, bug)));
        let begin = Instant::now();
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = match output.status.code() {
            Some(0) => None,
            Some(TIMED_OUT) => Some(format!("no end within {limit}")),
            _ => Some(first_failed(&text).unwrap_or_else(|| output.status.to_string())),
        };
        let passed = text.lines().filter(|line| line.ends_with(" ... ok")).count();
        Ok(Ran { failed, passed, took: begin.elapsed() })
    }
}

/// The first test that failed, by the output of libtest.
fn first_failed(text: &str) -> Option<String> {
    let failed = |line: &str| {
        let (name, _) = line.strip_prefix("test ")?.split_once(" ... FAILED")?;
        Some(name.to_owned())
    };
    text.lines().find_map(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_test_that_failed_is_named() {
        let text = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest d ... FAILED\n";
        assert_eq!(first_failed(text).as_deref(), Some("a::c"));
        assert_eq!(first_failed("test a ... ok\n"), None);
    }
}
