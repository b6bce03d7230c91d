//! A PgBouncer before a private PostgreSQL server.

use std::fs;
use std::io::Result;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use tempfile::TempDir;

use crate::child;
use crate::postgres::{
    Postgres, USER, as_user, directory_for_servers, read, until_ready, url, with_host_of,
};

/// The program, where Debian keeps it.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// The port of PgBouncer, which is part of the name of its socket.
const PORT: u16 = 6432;

/// Its console, as a database, and the user that may use it.
const CONSOLE: &str = "pgbouncer";

/// The file with its settings.
const SETTINGS: &str = "pgbouncer.ini";

/// A PgBouncer in transaction mode before a server, at its own socket. It is killed when it is
/// dropped.
#[derive(Debug)]
pub struct PgBouncer {
    directory: TempDir,
    process: Child,
}

impl PgBouncer {
    /// Starts a PgBouncer that has the given number of sessions with the server; `None` where it is
    /// not installed.
    pub fn start(server: &Postgres, sessions: u32) -> Result<Option<Self>> {
        let program = Path::new(PGBOUNCER);
        if !program.is_file() {
            return Ok(None);
        }
        let directory = directory_for_servers()?;
        let (own, theirs) = (directory.path().display(), server.directory.path().display());
        let settings = format!(
            "[databases]\n{USER} = host={theirs} user={USER}\n\
             [pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\n\
             unix_socket_dir = {own}\nauth_type = any\npool_mode = transaction\n\
             admin_users = {CONSOLE}\ndefault_pool_size = {sessions}\nmax_client_conn = 200\n\
             server_login_retry = 1\nlogfile =\npidfile =\n"
        );
        fs::write(directory.path().join(SETTINGS), settings)?;
        let process = Self::launch(directory.path())?;
        let bouncer = Self { directory, process };
        bouncer.until_ready()?;
        Ok(Some(bouncer))
    }

    fn launch(directory: &Path) -> Result<Child> {
        let words = as_user(Path::new(PGBOUNCER), &["-q"], &directory.join(SETTINGS))?;
        child::spawn(PathBuf::from(&words[0]), words[1..].to_vec())
    }

    fn until_ready(&self) -> Result<()> {
        let socket = self.directory.path().join(format!(".s.PGSQL.{PORT}"));
        until_ready(|| UnixStream::connect(&socket)).map(drop)
    }

    /// Kills it, and starts it again.
    pub fn restart(&mut self) -> Result<()> {
        child::kill(&mut self.process)?;
        self.process = Self::launch(self.directory.path())?;
        self.until_ready()
    }

    /// Runs a command of its console, such as `PAUSE`. Tries for a while, because PgBouncer accepts
    /// nobody for a moment if many clients connect at once.
    pub fn command(&self, command: &str) -> Result<()> {
        self.ask(CONSOLE, command).map(drop)
    }

    /// Runs statements through it, and returns the rows that they select: a line per row.
    pub fn query(&self, sql: &str) -> Result<String> {
        self.ask(USER, sql)
    }

    /// The number of clients that are connected to the server's database.
    pub fn clients(&self) -> Result<usize> {
        let lines = self.ask(CONSOLE, "SHOW CLIENTS")?;
        let of_console = format!("|{CONSOLE}|");
        Ok(lines.lines().filter(|line| !line.contains(&of_console)).count())
    }

    fn ask(&self, database: &str, command: &str) -> Result<String> {
        until_ready(|| {
            let mut psql = Command::new("psql");
            psql.args(["-X", "-q", "-A", "-t", "-U", database, "-d", database, "-c", command]);
            psql.arg("-p").arg(PORT.to_string());
            read(psql.arg("-h").arg(self.directory.path()))
        })
    }

    /// The URL of the server's database, through PgBouncer.
    pub fn url(&self) -> String {
        url(USER, self.directory.path(), PORT)
    }

    /// The URL of this PgBouncer and another. The primary is behind one of them.
    pub fn url_with(&self, other: &Self) -> String {
        with_host_of(&self.url(), &other.url())
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // A failure does no harm: the kernel ends it with this process.
        let _ = child::kill(&mut self.process);
    }
}
