//! A private PostgreSQL server, and a PgBouncer before it.

use std::ffi::OsString;
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

/// Where it listens, in the names of sockets.
const PORT: u16 = 5432;
const BOUNCER_PORT: u16 = 6432;

/// Where Debian keeps PgBouncer.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// How long a server may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a socket in its own directory, without a network. It is killed when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    directory: TempDir,
    process: Child,
}

impl Postgres {
    /// Starts a server with an empty database, which flushes nothing to the disk; `None` where
    /// PostgreSQL is not installed.
    ///
    /// # Errors
    ///
    /// What went wrong when it was set up or started.
    pub fn start() -> Result<Option<Self>> {
        Self::start_with(&["fsync=off"])
    }

    /// The same with further settings.
    ///
    /// # Errors
    ///
    /// What went wrong when it was set up or started.
    pub fn start_with(settings: &[&str]) -> Result<Option<Self>> {
        let Some(programs) = programs() else { return Ok(None) };
        let directory = directory_for_servers()?;
        let data = directory.path().join("data");
        let words = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"];
        let initdb = as_user(&programs.join("initdb"), &words, &data)?;
        read(Command::new(&initdb[0]).args(&initdb[1..]))?;
        let words = ["-c", "listen_addresses=", "-c"];
        let socket = format!("unix_socket_directories={}", directory.path().display());
        let mut server = as_user(&programs.join("postgres"), &words, Path::new(&socket))?;
        for setting in settings {
            server.extend(["-c".into(), setting.into()]);
        }
        server.extend(["-D".into(), data.into_os_string()]);
        let process = child::spawn(PathBuf::from(&server[0]), server[1..].to_vec())?;
        let server = Self { directory, process };
        until_ready(|| {
            let mut asked = Command::new(programs.join("pg_isready"));
            read(asked.arg("-h").arg(server.directory.path()))
        })?;
        Ok(Some(server))
    }

    /// The URL of its database for its superuser, as a store takes it, in which a request has time
    /// on a busy machine.
    pub fn url(&self) -> String {
        self.url_as(USER)
    }

    /// The same for another role.
    pub fn url_as(&self, role: &str) -> String {
        url(role, self.directory.path(), PORT)
    }

    /// The process, to be stopped and continued with all that it has started.
    pub fn process(&self) -> u32 {
        self.process.id()
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

/// A PgBouncer in transaction mode before a server, at its own socket. It is killed when it is
/// dropped.
#[derive(Debug)]
pub struct PgBouncer {
    directory: TempDir,
    process: Child,
}

impl PgBouncer {
    /// Starts one that has the given number of sessions with the server; `None` where it is not
    /// installed.
    ///
    /// # Errors
    ///
    /// What went wrong when it was set up or started.
    pub fn start(server: &Postgres, sessions: u32) -> Result<Option<Self>> {
        let program = Path::new(PGBOUNCER);
        if !program.is_file() {
            return Ok(None);
        }
        let directory = directory_for_servers()?;
        let (own, theirs) = (directory.path().display(), server.directory.path().display());
        let settings = format!(
            "[databases]\n{USER} = host={theirs} user={USER}\n\
             [pgbouncer]\nlisten_addr =\nlisten_port = {BOUNCER_PORT}\n\
             unix_socket_dir = {own}\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {sessions}\nmax_client_conn = 200\nlogfile =\npidfile =\n"
        );
        let file = directory.path().join("pgbouncer.ini");
        fs::write(&file, settings)?;
        let words = as_user(program, &["-q"], &file)?;
        let process = child::spawn(PathBuf::from(&words[0]), words[1..].to_vec())?;
        let bouncer = Self { directory, process };
        let socket = bouncer.directory.path().join(format!(".s.PGSQL.{BOUNCER_PORT}"));
        until_ready(|| std::os::unix::net::UnixStream::connect(&socket))?;
        Ok(Some(bouncer))
    }

    /// The URL of the server's database behind it.
    pub fn url(&self) -> String {
        url(USER, self.directory.path(), BOUNCER_PORT)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The URL of a database behind a socket.
fn url(role: &str, directory: &Path, port: u16) -> String {
    let host = directory.display().to_string().replace('/', "%2F");
    format!("postgres://{role}@{host}:{port}/{USER}?timeout=20s&connect_timeout=20s")
}

/// A directory that the user who runs servers may write to.
fn directory_for_servers() -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    if is_root()? {
        let (user, group) = ids()?;
        chown(directory.path(), Some(user), Some(group))?;
    }
    Ok(directory)
}

fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

/// Asks again and again until something is there.
fn until_ready<T>(is_ready: impl Fn() -> Result<T>) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match is_ready() {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= give_up => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
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

/// A command, as the user that may run it: servers refuse to be root. The kernel forgets whose end
/// is theirs when they change their user, so it is told once more.
fn as_user(program: &Path, words: &[&str], last: &Path) -> Result<Vec<OsString>> {
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
