//! Private Redis or Valkey servers that a test starts, hurts and ends.
//!
//! Every server has a directory of its own, a port the kernel picked, and a unix socket in that
//! directory by which the test looks at it: so a test never talks to a server it did not start.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::store::Redis;
use redis::{Cmd, Connection, FromRedisValue, RedisResult, Value};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::child;
use crate::clock;
use crate::program;

/// How long a server may take to answer its first PING: generous, for a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Options of a store URL that no answer of a server that is there is too late for.
const PATIENT: &str = "?timeout=30s&connect_timeout=30s";

/// How often a port is drawn anew because somebody else took it in between.
const START_TRIES: u32 = 5;

/// The file name of the unix socket by which a test looks at its server.
const SOCKET: &str = "redis.sock";

/// The file name of a server's configuration. Sentinels and failovers rewrite it, and a restarted
/// server goes on with what they have written.
const CONFIGURATION: &str = "redis.conf";

/// What a [`RedisServer`] is started with.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    lines: Vec<String>,
    password: Option<String>,
    own_clock: bool,
    sentinel: bool,
    tls: bool,
    certificates: Option<Certificates>,
}

impl RedisOptions {
    /// Adds a line to the server's configuration file.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Keeps an append-only file, synced as `appendfsync` says: `always`, `everysec` or `no`.
    #[must_use]
    pub fn append_only(self, appendfsync: &str) -> Self {
        self.line("appendonly yes").line(format!("appendfsync {appendfsync}"))
    }

    /// Limits the data to so many bytes; nothing is evicted.
    #[must_use]
    pub fn max_memory(self, bytes: u64) -> Self {
        self.line(format!("maxmemory {bytes}")).line("maxmemory-policy noeviction")
    }

    /// Gives the `default` user a password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.line(format!("requirepass {password}"))
    }

    /// Adds a user: its name and rules, as `ACL SETUSER` takes them.
    #[must_use]
    pub fn user(self, rules: &str) -> Self {
        self.line(format!("user {rules}"))
    }

    /// Adds the user `holder`, password `secret`, with the rights that the documentation of the
    /// Redis store says a holder needs.
    #[must_use]
    pub fn holder(self) -> Self {
        self.user(&format!("holder on >secret {}", Redis::HOLDER_RIGHTS))
    }

    /// Serves TLS on the port, with [`RedisServer::certificates`]; `clients` says whether a client
    /// needs a certificate.
    #[must_use]
    pub fn tls(mut self, clients: bool) -> Self {
        self.tls = true;
        self.line(format!("tls-auth-clients {}", if clients { "yes" } else { "no" }))
    }

    /// Uses the certificates of another server, so that the two trust each other.
    #[must_use]
    pub fn certificates(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Gives it a wall clock of its own, for [`RedisServer::set_clock`]. It is then the machine's
    /// own server, whatever [`SERVER_PROGRAM`](crate::SERVER_PROGRAM) says.
    #[must_use]
    pub fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Makes it a sentinel.
    #[must_use]
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// The password of the `default` user.
    pub(crate) fn default_password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Whether it serves TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }

    /// Starts a server.
    ///
    /// # Errors
    ///
    /// When there is no server program, or it does not start; the end of its log is in the message.
    pub fn start(self) -> io::Result<RedisServer> {
        let directory = tempfile::Builder::new().prefix("leasehold-server-").tempdir()?;
        let certificates = match (self.tls, &self.certificates) {
            (true, Some(others)) => Some(others.clone()),
            (true, None) => Some(Certificates::write(directory.path())?),
            (false, _) => None,
        };
        let mut refused = Error::other("no port was tried");
        for _ in 0..START_TRIES {
            let port = free_port()?;
            let text = configuration(&self, directory.path(), port, certificates.as_ref());
            fs::write(directory.path().join(CONFIGURATION), text)?;
            match launch(&self, directory.path()) {
                Ok(process) => {
                    return Ok(RedisServer {
                        options: self,
                        directory,
                        certificates,
                        port,
                        process,
                        started: Instant::now(),
                        stopped: AtomicBool::new(false),
                    });
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }
}

/// What a restarted server finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing: its files were deleted.
    Dropped,
    /// What its files hold.
    Kept,
}

/// A running server that ends with the test, even if the test is killed.
#[derive(Debug)]
pub struct RedisServer {
    options: RedisOptions,
    directory: TempDir,
    certificates: Option<Certificates>,
    port: u16,
    process: Child,
    started: Instant,
    stopped: AtomicBool,
}

impl RedisServer {
    /// What to start a server with.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Starts a server without persistence, password or limit.
    ///
    /// # Errors
    ///
    /// As [`RedisOptions::start`].
    pub fn start() -> io::Result<Self> {
        Self::options().start()
    }

    /// The store URL of the server's port, without credentials.
    pub fn url(&self) -> String {
        let scheme = if self.certificates.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}/0", self.port)
    }

    /// The same for a test in which every request must be answered, however busy the machine is.
    pub fn patient_url(&self) -> String {
        format!("{}{PATIENT}", self.url())
    }

    /// The store URL with a user and a password in it.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url().replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// The same for a test in which every request must be answered, however busy the machine is.
    pub fn patient_url_as(&self, user: &str, password: &str) -> String {
        format!("{}{PATIENT}", self.url_as(user, password))
    }

    /// The store URL for the user of [`RedisOptions::holder`], as patient.
    pub fn holder_url(&self) -> String {
        self.patient_url_as("holder", "secret")
    }

    /// The store URL of the server's unix socket.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The server's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The server's unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// When its process had started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// The certificates, of a server with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// A connection of the test's own, as the `default` user, by the unix socket.
    ///
    /// # Errors
    ///
    /// The driver's, when the server does not answer.
    pub fn connection(&self) -> RedisResult<Connection> {
        connect(&self.socket(), self.options.password.as_deref())
    }

    /// Sends one command by a connection of its own: `server.command("CLIENT KILL TYPE normal")`.
    ///
    /// # Errors
    ///
    /// The server's or the driver's.
    pub fn command<T: FromRedisValue>(&self, words: &str) -> RedisResult<T> {
        let mut command = Cmd::new();
        words.split_ascii_whitespace().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut self.connection()?)
    }

    /// One section of `INFO`.
    ///
    /// # Errors
    ///
    /// The server's or the driver's.
    pub fn info(&self, section: &str) -> RedisResult<String> {
        self.command(&format!("INFO {section}"))
    }

    /// How often a command was called, and how many microseconds it took in all.
    ///
    /// # Errors
    ///
    /// The server's or the driver's.
    pub fn command_stats(&self, command: &str) -> RedisResult<(u64, u64)> {
        let info = self.info("commandstats")?;
        let prefix = format!("cmdstat_{}:", command.to_ascii_lowercase());
        let Some(line) = info.lines().find_map(|line| line.strip_prefix(&prefix)) else {
            return Ok((0, 0));
        };
        let field = |name: &str| {
            let text = line.split(',').find_map(|part| part.strip_prefix(name));
            text.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        Ok((field("calls="), field("usec=")))
    }

    /// What users were denied since the start: empty if the documented rights suffice.
    ///
    /// # Errors
    ///
    /// The server's or the driver's.
    pub fn acl_log(&self) -> RedisResult<Vec<Value>> {
        self.command("ACL LOG")
    }

    /// What it says it is now: `master`, `slave` or `sentinel`; `None` of one that is dead or
    /// stopped.
    pub fn role(&self) -> Option<String> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let role: Vec<Value> = self.command("ROLE").ok()?;
        String::from_redis_value(role.into_iter().next()?).ok()
    }

    /// Ends the server as a crash does.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn kill9(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.stopped.store(false, Ordering::Relaxed);
        self.process.wait().map(drop)
    }

    /// Stops the server where it is: it keeps its connections and answers nothing once this has
    /// returned.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn stop(&self) -> io::Result<()> {
        self.stopped.store(true, Ordering::Relaxed);
        self.signal(Signal::STOP)?;
        // On another processor it runs on for a moment, and might answer what is sent meanwhile.
        waitpid(Some(Pid::from_child(&self.process)), WaitOptions::UNTRACED)?;
        Ok(())
    }

    /// Lets a stopped server go on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn cont(&self) -> io::Result<()> {
        self.stopped.store(false, Ordering::Relaxed);
        self.signal(Signal::CONT)
    }

    /// Ends the server as a crash does, if it runs, and starts it again on the same port.
    ///
    /// # Errors
    ///
    /// As [`RedisOptions::start`].
    pub fn restart(&mut self, data: Data) -> io::Result<()> {
        self.kill9()?;
        if data == Data::Dropped {
            remove_data(self.directory.path())?;
        }
        let since = Instant::now();
        loop {
            match launch(&self.options, self.directory.path()) {
                Ok(process) => {
                    self.process = process;
                    self.started = Instant::now();
                    return Ok(());
                }
                // A connection of somebody else may have that port for a moment.
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse && since.elapsed() < START_LIMIT =>
                {
                    thread::sleep(Duration::from_millis(50));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.process), signal)?)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Nothing to be done about a failure: the kernel ends the server with this process.
        let _ = self.kill9();
    }
}

pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn connect(socket: &Path, password: Option<&str>) -> RedisResult<Connection> {
    let mut connection =
        redis::Client::open(format!("unix://{}", socket.display()))?.get_connection()?;
    if let Some(password) = password {
        redis::cmd("AUTH").arg(password).exec(&mut connection)?;
    }
    Ok(connection)
}

fn configuration(
    options: &RedisOptions,
    directory: &Path,
    port: u16,
    certificates: Option<&Certificates>,
) -> String {
    let home = directory.display();
    let mut text = format!(
        "bind 127.0.0.1\nunixsocket {home}/{SOCKET}\ndir {home}\nlogfile {home}/log\n\
         daemonize no\nsave \"\"\nenable-debug-command local\n"
    );
    // Writing to a String cannot fail.
    let _ = match certificates {
        None => writeln!(text, "port {port}"),
        Some(files) => writeln!(
            text,
            "port 0\ntls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}",
            files.server.display(),
            files.server_key.display(),
            files.authority.display(),
        ),
    };
    for line in &options.lines {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Starts the program with the configuration in its directory, and waits until it answers.
fn launch(options: &RedisOptions, directory: &Path) -> io::Result<Child> {
    let log = directory.join("log");
    fs::write(&log, "")?;
    let (program, mut arguments) = match options.own_clock {
        true => clock::command(directory)?,
        false => (program::server()?, Vec::new()),
    };
    arguments.push(directory.join(CONFIGURATION).into());
    if options.sentinel {
        arguments.push("--sentinel".into());
    }
    let mut process = child::spawn(program, arguments)?;
    let since = Instant::now();
    let socket = directory.join(SOCKET);
    loop {
        let answer = connect(&socket, options.password.as_deref())
            .and_then(|mut connection| redis::cmd("PING").exec(&mut connection));
        match answer {
            Ok(()) => return Ok(process),
            Err(error) => {
                if process.try_wait()?.is_none() && since.elapsed() < START_LIMIT {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                process.kill()?;
                process.wait()?;
                let log = fs::read_to_string(&log)?;
                let in_use = log.contains("Address already in use");
                let kind = if in_use { ErrorKind::AddrInUse } else { ErrorKind::Other };
                return Err(Error::new(kind, format!("the server did not start: {error}\n{log}")));
            }
        }
    }
}

/// Deletes everything a server would load.
fn remove_data(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.ends_with("appendonlydir") {
            fs::remove_dir_all(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rdb") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;

    #[test]
    fn a_restarted_server_remembers_what_its_append_only_file_holds() {
        let mut server = RedisServer::options().append_only("always").start().unwrap();
        server.command::<()>("SET a 1").unwrap();
        server.restart(Data::Kept).unwrap();
        assert_eq!(server.command::<u32>("GET a").unwrap(), 1);
        server.restart(Data::Dropped).unwrap();
        assert_eq!(server.command::<Option<u32>>("GET a").unwrap(), None);
    }

    #[test]
    fn a_server_with_a_password_a_user_and_tls_starts() {
        let server = RedisServer::options()
            .password("secret")
            .user("holder on >pw ~lh:* -@all +ping")
            .tls(true)
            .start()
            .unwrap();
        assert_eq!(server.command_stats("set").unwrap(), (0, 0));
        assert!(server.acl_log().unwrap().is_empty());
        assert!(server.url_as("holder", "pw").starts_with("rediss://holder:pw@127.0.0.1:"));
    }

    #[test]
    fn a_server_ends_when_it_is_dropped() {
        let server = RedisServer::start().unwrap();
        let process = Pid::from_child(&server.process);
        // Not its port: that may be somebody else's a moment later.
        assert!(test_kill_process(process).is_ok());
        drop(server);
        assert!(test_kill_process(process).is_err());
    }
}
