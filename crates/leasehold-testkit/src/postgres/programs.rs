//! The programs of PostgreSQL, and the user that may run them.

use std::ffi::OsString;
use std::fs;
use std::io::{Error, Result};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Where Debian keeps the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The variable that names a directory with programs of another version.
const NAMED: &str = "LEASEHOLD_TEST_POSTGRES";

/// The programs that are needed.
const PROGRAMS: [&str; 6] =
    ["initdb", "pg_basebackup", "pg_dump", "pg_isready", "postgres", "psql"];

/// The superuser, and the system user that runs the server where root must not.
pub(crate) const USER: &str = "postgres";

/// The programs of the version that the environment names, or of the newest that is installed.
pub(super) fn programs() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(NAMED) {
        return Some(named.into());
    }
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = debian.chain(std::env::split_paths(&path));
    let has_all = |folder: &PathBuf| PROGRAMS.iter().all(|name| folder.join(name).is_file());
    folders.filter(has_all).max()
}

/// A command, as the user that may run it: servers refuse to be root. The kernel drops the death
/// signal when a process changes its user, so the signal is set once more.
pub(crate) fn as_user(program: &Path, words: &[&str], last: &Path) -> Result<Vec<OsString>> {
    let change: &[&str] = match is_root()? {
        true => {
            &["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", "KILL"]
        }
        false => &["env"],
    };
    let change = change.iter().map(OsString::from);
    let words = words.iter().map(OsString::from);
    let program = [program.as_os_str().to_owned()];
    Ok(change.chain(program).chain(words).chain([last.as_os_str().to_owned()]).collect())
}

/// Runs a program to its end, as the user that may run servers.
pub(super) fn run_as_user(program: &Path, words: &[&str], last: &Path) -> Result<()> {
    let command = as_user(program, words, last)?;
    read(Command::new(&command[0]).args(&command[1..])).map(drop)
}

/// A directory that the user who runs servers may write to.
pub(crate) fn directory_for_servers() -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    give(directory.path())?;
    Ok(directory)
}

/// Gives a file to the user who runs servers.
pub(super) fn give(path: &Path) -> Result<()> {
    if is_root()? {
        let (user, group) = ids()?;
        chown(path, Some(user), Some(group))?;
    }
    Ok(())
}

pub(super) fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

/// The numbers of the user and the group that run it.
pub(super) fn ids() -> Result<(u32, u32)> {
    let number = |option| {
        let shown = read(Command::new("id").args([option, USER]))?;
        shown.trim().parse().map_err(Error::other)
    };
    Ok((number("-u")?, number("-g")?))
}

/// The output of a program, if it succeeds.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Error::other(format!("{command:?}: {}", text(&output.stderr)))),
    }
}
