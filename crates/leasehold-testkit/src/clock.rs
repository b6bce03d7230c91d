//! A wall clock for one process, by Debian's `faketime`. That of a server is set by a file.
//!
//! Only the wall clock is faked, as if it were set or ran badly. The clock by which the process
//! measures spans is not changed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};

use crate::program;

/// The file that says how the clock differs from the machine's.
const FILE: &str = "clock";

/// Where Debian's packages of each kind of machine have their libraries.
const LIBRARIES: &str = "/usr/lib";

/// The library of `faketime`, below the directory of this kind of machine.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

/// The program that starts a Redis server with its own clock, and the arguments that come before
/// those of the server.
///
/// The server is always the one that is installed on the machine, because of its allocator.
/// jemalloc asks for the time while it starts, and faketime asks for memory at its first call, so
/// neither would ever be ready. With the allocator of libc, both start. Newer servers return memory
/// by calls that only jemalloc has, so they cannot run without it.
pub(crate) fn command(directory: &Path) -> io::Result<(PathBuf, Vec<OsString>)> {
    if !is_own(directory) {
        set(directory, 0.0, 1.0)?;
    }
    let mut arguments = environment(directory)?.map(OsString::from).to_vec();
    arguments.push(program::installed()?.into());
    Ok(("env".into(), arguments))
}

/// Whether the server in this directory has its own clock.
pub(crate) fn is_own(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

/// The variables with which a process has the clock of this directory, as `env` takes them.
///
/// The program `faketime` is not used: it fails if a process that was killed had the same number.
pub fn environment(directory: &Path) -> io::Result<[String; 4]> {
    Ok([
        format!("LD_PRELOAD={}:libc.so.6", library()?.display()),
        format!("FAKETIME_TIMESTAMP_FILE={}", directory.join(FILE).display()),
        "FAKETIME_NO_CACHE=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ])
}

/// Sets the clock of this directory.
///
/// Replaces the file as a whole: a process reads it whenever it asks for the time.
pub fn set(directory: &Path, ahead_s: f64, rate: f64) -> io::Result<()> {
    let draft = directory.join("clock.new");
    fs::write(&draft, format!("{ahead_s:+.6} x{rate:.6}\n"))?;
    fs::rename(draft, directory.join(FILE))
}

fn library() -> io::Result<PathBuf> {
    let machines = fs::read_dir(LIBRARIES).into_iter().flatten();
    let mut files = machines.filter_map(|entry| Some(entry.ok()?.path().join(FAKETIME)));
    files.find(|file| file.is_file()).ok_or_else(|| {
        let why = "faketime is missing: install it (`apt-get install faketime`)";
        Error::new(ErrorKind::NotFound, why)
    })
}
