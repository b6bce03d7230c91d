//! A private PostgreSQL server.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Error, Result};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::child;

/// Where Debian keeps the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// What is needed of them.
const PROGRAMS: [&str; 3] = ["initdb", "pg_isready", "postgres"];

/// Its superuser, and the user of the system that runs it where root may not.
const USER: &str = "postgres";

/// How long a server may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a socket in a directory of its own, without a network. It is killed when it is
/// dropped.
#[derive(Debug)]
pub struct Postgres {
    directory: TempDir,
    process: Child,
}

impl Postgres {
    /// Starts a server with an empty database; `None` where PostgreSQL is not installed.
    ///
    /// # Errors
    ///
    /// What went wrong when it was set up or started.
    pub fn start() -> Result<Option<Self>> {
        let Some(programs) = programs() else { return Ok(None) };
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data");
        let me = fs::metadata(directory.path())?.uid();
        if me == 0 {
            let (user, group) = ids()?;
            chown(directory.path(), Some(user), Some(group))?;
        }
        let words = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"];
        let initdb = as_user(me == 0, &programs.join("initdb"), &words, &data);
        read(Command::new(&initdb[0]).args(&initdb[1..]))?;
        let words = ["-F", "-c", "listen_addresses=", "-c"];
        let socket = format!("unix_socket_directories={}", directory.path().display());
        let mut server = as_user(me == 0, &programs.join("postgres"), &words, Path::new(&socket));
        server.extend(["-D".into(), data.into_os_string()]);
        let process = child::spawn(PathBuf::from(&server[0]), server[1..].to_vec())?;
        let server = Self { directory, process };
        server.until_ready(&programs)?;
        Ok(Some(server))
    }

    fn until_ready(&self, programs: &Path) -> Result<()> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let mut asked = Command::new(programs.join("pg_isready"));
            let error = match read(asked.arg("-h").arg(self.directory.path())) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if Instant::now() >= give_up {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The environment in which `psql` finds it.
    pub fn environment(&self) -> [(&'static str, OsString); 3] {
        let host = self.directory.path().as_os_str().to_owned();
        [("PGHOST", host), ("PGUSER", USER.into()), ("PGDATABASE", USER.into())]
    }

    /// Runs statements, and gives what they select: a line per row.
    ///
    /// # Errors
    ///
    /// What the server says against them.
    pub fn query(&self, sql: &str) -> Result<String> {
        let mut psql = Command::new("psql");
        psql.envs(self.environment()).args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        read(psql.args(["-c", sql]))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The programs of the newest version that is installed.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = debian.chain(std::env::split_paths(&path));
    let has_all = |folder: &PathBuf| PROGRAMS.iter().all(|name| folder.join(name).is_file());
    folders.filter(has_all).max()
}

/// A command, as the user that may run it: the server refuses to be root.
fn as_user(is_root: bool, program: &Path, words: &[&str], last: &Path) -> Vec<OsString> {
    let change: &[&str] = match is_root {
        true => &["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"],
        false => &["env"],
    };
    let change = change.iter().map(OsString::from);
    let rest = [program.as_os_str(), OsStr::new(words[0])].map(OsStr::to_owned);
    let words = words[1..].iter().map(OsString::from);
    change.chain(rest).chain(words).chain([last.as_os_str().to_owned()]).collect()
}

/// The numbers of the user and the group that run it.
fn ids() -> Result<(u32, u32)> {
    let number = |option| {
        let shown = read(Command::new("id").args([option, USER]))?;
        shown.trim().parse().map_err(Error::other)
    };
    Ok((number("-u")?, number("-g")?))
}

/// What a program says, if it succeeds.
fn read(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Error::other(format!("{command:?}: {}", text(&output.stderr)))),
    }
}
