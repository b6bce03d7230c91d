//! Which server program the tests start.

use std::env;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// The environment variable that names the server program, before all others.
pub const SERVER_PROGRAM: &str = "LEASEHOLD_TEST_SERVER";

/// The names of the server programs.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// Where `cargo xtask servers` puts the servers that it fetches, one directory for each.
const FETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers");

/// The server program: the one that [`SERVER_PROGRAM`] names, else the first on PATH, else the
/// first that was fetched.
pub(crate) fn server() -> Result<PathBuf> {
    match env::var_os(SERVER_PROGRAM) {
        Some(program) => Ok(program.into()),
        None => installed().or_else(|missing| first(&fetched()).ok_or(missing)),
    }
}

/// The server program of this machine: the first on PATH.
pub(crate) fn installed() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    first(&env::split_paths(&path).collect::<Vec<_>>()).ok_or_else(|| {
        let why = format!(
            "no redis-server or valkey-server on PATH: install one, run `cargo xtask servers`, \
             or set {SERVER_PROGRAM}"
        );
        Error::new(ErrorKind::NotFound, why)
    })
}

fn first(folders: &[PathBuf]) -> Option<PathBuf> {
    let mut files =
        NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
}

/// The directories of fetched servers; none when nothing was fetched.
fn fetched() -> Vec<PathBuf> {
    let entries = fs::read_dir(FETCHED).into_iter().flatten();
    let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    folders
}
