//! Runs a program: prints the command before, and shows its output while it runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Done, or one line that says what is wrong and where.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// A variable with a wrapper of rustc for the packages of this workspace, and the wrapper, which
/// adds the code for tests. Dependencies are built as usual.
const FOR_TESTS: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "xtask/rustc-for-tests.sh");

/// A program to run, and its command line as a person would type it.
#[derive(Debug)]
pub(crate) struct Run {
    command: Command,
    words: String,
}

impl Run {
    /// A program, in the root of the workspace.
    ///
    /// It does not learn to which package this program belongs. Build scripts look at that, so a
    /// `cargo` that is typed would build again what `cargo xtask` has built.
    pub(crate) fn program(name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(name);
        command.args(arguments).current_dir(root()).stdin(Stdio::null());
        for (variable, _) in std::env::vars_os() {
            let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_"];
            if of_package.iter().any(|begin| variable.to_string_lossy().starts_with(begin)) {
                command.env_remove(variable);
            }
        }
        Self { command, words: format!("{name} {}", arguments.join(" ")) }
    }

    /// The cargo that runs this task.
    pub(crate) fn cargo(arguments: &[&str]) -> Self {
        Self::program("cargo", arguments)
    }

    /// The same with a variable in its environment.
    pub(crate) fn with(mut self, variable: &str, value: &str) -> Self {
        self.command.env(variable, value);
        self.words = format!("{variable}='{value}' {}", self.words);
        self
    }

    /// The same with the code for tests of this workspace, and without what makes a first build
    /// slower: an incremental build, and line numbers of frames. A test reads those of the library.
    pub(crate) fn for_tests(mut self) -> Self {
        self.command.env(FOR_TESTS.0, root().join(FOR_TESTS.1));
        self.command.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "none")]);
        self
    }

    /// The same in another directory.
    pub(crate) fn within(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Whether it starts and succeeds; shows no output.
    pub(crate) fn works(mut self) -> bool {
        let (out, err) = (Stdio::null(), Stdio::null());
        self.command.stdout(out).stderr(err).status().is_ok_and(|end| end.success())
    }

    /// Runs it with its output shown.
    pub(crate) fn show(mut self) -> Outcome {
        eprintln!("$ {}", self.words);
        let end = self.command.status().map_err(|error| format!("`{}`: {error}", self.words))?;
        if end.success() { Ok(()) } else { Err(format!("`{}` ({end})", self.words)) }
    }

    /// Runs it with its stderr shown. Returns its stdout, and whether it has succeeded.
    pub(crate) fn read(mut self) -> Outcome<(String, bool)> {
        eprintln!("$ {}", self.words);
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("`{}`: {error}", self.words))?;
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()))
    }

    /// Runs it silently. Returns its stderr and stdout, and whether it has succeeded.
    pub(crate) fn record(mut self) -> Outcome<(String, bool)> {
        let output = self.command.output();
        let output = output.map_err(|error| format!("`{}`: {error}", self.words))?;
        let text = [output.stderr, output.stdout].concat();
        Ok((String::from_utf8_lossy(&text).into_owned(), output.status.success()))
    }
}

/// The root of the workspace: the directory above this package.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_named_with_its_words() {
        let failed = Run::program("false", &["--loudly"]).show();
        assert!(failed.is_err_and(|why| why.contains("`false --loudly`")));
        assert!(!Run::program("no-such-program-anywhere", &[]).works());
    }

    #[test]
    fn a_cargo_is_not_told_which_package_this_program_is() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "cargo tells it");
        let run = Run::cargo(&["--version"]);
        let is_removed = |name: &str| run.command.get_envs().any(|it| it == (name.as_ref(), None));
        assert!(is_removed("CARGO_MANIFEST_DIR"));
    }
}
