//! Private Redis or Valkey servers that a test starts, hurts and ends.
//!
//! Every server has its own directory, a port the kernel picked, and a unix socket in that
//! directory by which the test inspects it: so a test never talks to a server it did not start.

mod launch;
mod options;

use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, FromRedisValue, RedisResult, Value};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

pub(crate) use self::launch::free_port;
use self::launch::{SOCKET, START_LIMIT, configure, connect, launch, remove_data};
pub use self::options::RedisOptions;
use crate::certificates::Certificates;
use crate::{child, clock};

/// Options of a store URL with timeouts so long that no answer of a live server is too late.
const PATIENT: &str = "?timeout=30s";

/// How often a new port is drawn at most, if another program takes the port meanwhile.
const START_TRIES: u32 = 5;

impl RedisOptions {
    /// Starts a server.
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
            configure(&self, directory.path(), port, certificates.as_ref())?;
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

/// The data that a restarted server finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing: its files were deleted.
    Dropped,
    /// The data in its files.
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
    /// The options of a server to start.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Starts a server without persistence, password or limit.
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

    /// The patient store URL for the user of [`RedisOptions::holder`].
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

    /// The directory of its files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The certificates, of a server with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// A connection of the test's own, as the `default` user, by the unix socket.
    pub fn connection(&self) -> RedisResult<Connection> {
        connect(&self.socket(), self.options.password.as_deref())
    }

    /// Sends one command by a new connection: `server.command("CLIENT KILL TYPE normal")`.
    pub fn command<T: FromRedisValue>(&self, words: &str) -> RedisResult<T> {
        let mut command = Cmd::new();
        words.split_ascii_whitespace().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut self.connection()?)
    }

    /// One section of `INFO`.
    pub fn info(&self, section: &str) -> RedisResult<String> {
        self.command(&format!("INFO {section}"))
    }

    /// The number behind these words in a section of `INFO`, or 0.
    pub fn number(&self, section: &str, words: &str) -> RedisResult<u64> {
        let info = self.info(section)?;
        let number = info.lines().find_map(|line| line.strip_prefix(words)?.trim().parse().ok());
        Ok(number.unwrap_or_default())
    }

    /// How often a command was called, and how many microseconds it took in all.
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

    /// The lines of `MONITOR` from now on, until the server is told `ECHO over`. If the line's
    /// source is `lua`, a script called the command.
    pub fn monitor(&self) -> RedisResult<impl Iterator<Item = String> + use<>> {
        let mut connection = self.connection()?;
        redis::cmd("MONITOR").exec(&mut connection)?;
        let next = move || String::from_redis_value(connection.recv_response().ok()?).ok();
        Ok(std::iter::from_fn(next).take_while(|line| !line.ends_with(r#""ECHO" "over""#)))
    }

    /// The commands that the server was sent since [`monitor`](Self::monitor) was called, without
    /// arguments and without those of the test itself. A command that a script called is in
    /// brackets.
    pub fn sent(&self, lines: impl Iterator<Item = String>) -> RedisResult<Vec<String>> {
        self.command::<()>("ECHO over")?;
        let command = |line: String| {
            let (source, words) = line.split_once("] ")?;
            let command = words.split('"').nth(1)?.to_owned();
            let command = if source.ends_with("lua") { format!("({command})") } else { command };
            (!source.contains("unix:")).then_some(command)
        };
        Ok(lines.filter_map(command).collect())
    }

    /// What users were denied since the start: empty if the documented rights suffice.
    pub fn acl_log(&self) -> RedisResult<Vec<Value>> {
        self.command("ACL LOG")
    }

    /// The role that the server reports: `master`, `slave` or `sentinel`; `None` if it is dead or
    /// stopped.
    pub fn role(&self) -> Option<String> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let role: Vec<Value> = self.command("ROLE").ok()?;
        String::from_redis_value(role.into_iter().next()?).ok()
    }

    /// Ends the server as a crash does.
    pub fn kill9(&mut self) -> io::Result<()> {
        self.stopped.store(false, Ordering::Relaxed);
        child::kill(&mut self.process)
    }

    /// Stops the server's process: it keeps its connections, and answers nothing once this has
    /// returned.
    pub fn stop(&self) -> io::Result<()> {
        self.stopped.store(true, Ordering::Relaxed);
        self.signal(Signal::STOP)?;
        // On another processor, the server runs on for a moment, and might still answer requests.
        waitpid(Some(Pid::from_child(&self.process)), WaitOptions::UNTRACED)?;
        Ok(())
    }

    /// Continues a stopped server.
    pub fn cont(&self) -> io::Result<()> {
        self.stopped.store(false, Ordering::Relaxed);
        self.signal(Signal::CONT)
    }

    /// Ends the server as a crash does, if it runs, and starts it again on the same port.
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
                // A connection of another program may have that port for a moment.
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse && since.elapsed() < START_LIMIT =>
                {
                    thread::sleep(Duration::from_millis(50));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sets the wall clock of a server that has [its own](crate::RedisOptions::own_clock): the
    /// given seconds ahead of the machine's, or behind it, and running at `rate` from now on.
    ///
    /// A rate other than 1 counts from the start of the process, which is known to some 10 ms.
    pub fn set_clock(&self, ahead_s: f64, rate: f64) -> io::Result<()> {
        let so_far_s = self.started.elapsed().as_secs_f64();
        clock::set(self.directory(), ahead_s + so_far_s * (1.0 - rate), rate)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.process), signal)?)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // A failure does no harm: the kernel ends the server with this process.
        let _ = self.kill9();
    }
}

#[cfg(test)]
mod tests;
