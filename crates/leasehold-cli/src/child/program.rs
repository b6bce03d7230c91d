//! Looks the command up before a lock is acquired.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::report::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// The search path if `PATH` is not set, as execvp(3) of the GNU library has it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Checks that a program can be started, by the rules of execvp(3).
///
/// # Errors
///
/// Exit code 127 if there is no such program, 126 if it is there and cannot be executed.
pub(crate) fn look_up(program: &OsStr) -> Result<(), Failure> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let shown = program.to_string_lossy();
    match find(program, &path) {
        Found::Executable => Ok(()),
        Found::Not(place) => {
            let message = format!("cannot execute {}: the file is not executable", place.display());
            Err(Failure::new(NOT_EXECUTABLE, message))
        }
        Found::Nowhere => {
            let has_slash = program.as_encoded_bytes().contains(&b'/');
            let what = if has_slash { "no such file" } else { "command not found in PATH" };
            let hint = if shown.contains(' ') { ": for a shell, write sh -c 'CMD'" } else { "" };
            Err(Failure::new(NOT_FOUND, format!("{shown}: {what}{hint}")))
        }
    }
}

enum Found {
    Executable,
    Not(PathBuf),
    Nowhere,
}

fn find(program: &OsStr, path: &OsStr) -> Found {
    if program.is_empty() {
        return Found::Nowhere;
    }
    if program.as_encoded_bytes().contains(&b'/') {
        return examine(Path::new(program));
    }
    let mut refused = Found::Nowhere;
    for directory in std::env::split_paths(path) {
        // An empty element means the current directory, and `join` gives that result.
        match examine(&directory.join(program)) {
            Found::Executable => return Found::Executable,
            Found::Not(place) => refused = Found::Not(place),
            Found::Nowhere => {}
        }
    }
    refused
}

fn examine(place: &Path) -> Found {
    match std::fs::metadata(place) {
        Err(_) => Found::Nowhere,
        Ok(found) if found.is_file() && access(place, Access::EXEC_OK).is_ok() => Found::Executable,
        Ok(_) => Found::Not(place.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_up_as_execvp_does() {
        let find = |program: &str, path: &str| find(OsStr::new(program), OsStr::new(path));
        assert!(matches!(find("sh", "/nowhere:/bin"), Found::Executable));
        assert!(matches!(find("/bin/sh", ""), Found::Executable));
        assert!(matches!(find("sh", "/nowhere"), Found::Nowhere));
        assert!(matches!(find("", "/bin"), Found::Nowhere));
        assert!(matches!(find("/etc/passwd", "/bin"), Found::Not(_)));
        assert!(matches!(find("/bin", ""), Found::Not(_)), "a directory");
        assert!(matches!(find("passwd", "/etc:/nowhere"), Found::Not(_)));
    }
}
