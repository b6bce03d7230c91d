//! A private PostgreSQL server.

mod programs;

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Result;
use std::iter;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) use self::programs::{USER, as_user, directory_for_servers, read};
use self::programs::{give, ids, is_root, programs, run_as_user};
use crate::certificates::Certificates;
use crate::proxy::Proxy;
use crate::{child, clock};

/// The port of the server, which is part of the name of its socket.
const PORT: u16 = 5432;

/// The directory of a small disk.
const SMALL_DISK: &str = "small";

/// The timeouts of requests and connections, as options of a store, for a busy machine.
const LONG_TIMEOUTS: &str = "timeout=20s";

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a socket in its own directory, without a network unless settings say otherwise. It
/// is killed when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    pub(crate) directory: TempDir,
    programs: PathBuf,
    settings: Vec<String>,
    /// The command that mounts its small disk, if it has one, and starts the server.
    mounts: Option<String>,
    process: Child,
}

impl Postgres {
    /// Starts a server with an empty database, which flushes nothing to the disk; `None` where
    /// PostgreSQL is not installed.
    pub fn start() -> Result<Option<Self>> {
        Self::start_with(&["fsync=off"])
    }

    /// The same with further settings.
    pub fn start_with(settings: &[&str]) -> Result<Option<Self>> {
        let Some(programs) = programs() else { return Ok(None) };
        let directory = directory_for_servers()?;
        let words = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"];
        let data = directory.path().join("data");
        run_as_user(&programs.join("initdb"), &words, &data)?;
        Self::begin(directory, programs, settings).map(Some)
    }

    /// Starts a standby that streams from this server, with the same settings.
    pub fn standby(&self) -> Result<Self> {
        let directory = directory_for_servers()?;
        self.back_up_to(directory.path())?;
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        Self::begin(directory, self.programs.clone(), &settings)
    }

    /// Kills the server, deletes its data, and starts it again as a standby of another server.
    pub fn follow(&mut self, primary: &Self) -> Result<()> {
        self.kill9()?;
        fs::remove_dir_all(self.directory.path().join("data"))?;
        primary.back_up_to(self.directory.path())?;
        self.restart()
    }

    /// Copies the data of this server, for a standby of it.
    fn back_up_to(&self, directory: &Path) -> Result<()> {
        let host = self.directory.path().to_string_lossy();
        let words =
            ["-h", &host, "-U", USER, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"];
        let program = self.programs.join("pg_basebackup");
        // A busy server refuses a connection if too many others wait for theirs.
        until_ready(|| run_as_user(&program, &words, &directory.join("data")))
    }

    /// Starts a server that also listens on TCP at 127.0.0.1 and 127.0.0.2, with this certificate.
    pub fn start_with_tls(files: &Certificates) -> Result<Option<Self>> {
        files.server.parent().map_or(Ok(()), give)?;
        [&files.server, &files.server_key, &files.authority]
            .into_iter()
            .try_for_each(|it| give(it))?;
        fs::set_permissions(&files.server_key, Permissions::from_mode(0o600))?;
        let settings = [
            free_port()?,
            "listen_addresses=127.0.0.1,127.0.0.2".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", files.server.display()),
            format!("ssl_key_file={}", files.server_key.display()),
            format!("ssl_ca_file={}", files.authority.display()),
        ];
        Self::start_with(&settings.each_ref().map(String::as_str))
    }

    /// Starts a server with its own wall clock, for [`set_clock`](Self::set_clock).
    pub fn start_with_clock() -> Result<Option<Self>> {
        let Some(mut server) = Self::start()? else { return Ok(None) };
        server.set_clock(0.0)?;
        server.stop_at_once()?;
        server.restart()?;
        Ok(Some(server))
    }

    /// Sets the clock that all its processes read, in seconds ahead of the machine's.
    pub fn set_clock(&self, ahead_s: f64) -> Result<()> {
        clock::set(self.directory.path(), ahead_s, 1.0)
    }

    /// Starts a server with a small disk in memory as its tablespace `small`; `None` also where
    /// mounting is not allowed. The disk is mounted in a separate namespace.
    pub fn start_with_small_disk(size: &str) -> Result<Option<Self>> {
        let Some(mut server) = Self::start()? else { return Ok(None) };
        let (user, group) = if is_root()? { ids()? } else { (0, 0) };
        let disk = server.directory.path().join(SMALL_DISK);
        fs::create_dir(&disk)?;
        let options = format!("size={size},uid={user},gid={group}");
        server.mounts =
            Some(format!("mount -t tmpfs -o {options} none {} && exec \"$@\"", disk.display()));
        let mut tried = Command::new("unshare");
        tried.args(["--mount", "sh", "-c"]).args(&server.mounts).args(["sh", "true"]);
        if !tried.output()?.status.success() {
            return Ok(None);
        }
        server.stop_at_once()?;
        server.restart()?;
        server.query(&format!("CREATE TABLESPACE small LOCATION '{}'", disk.display()))?;
        Ok(Some(server))
    }

    /// Starts a server that also listens on TCP at 127.0.0.1, with these settings.
    pub fn start_on_tcp(settings: &[&str]) -> Result<Option<Self>> {
        let own = ["fsync=off", "listen_addresses=127.0.0.1", &free_port()?];
        Self::start_with(&[&own, settings].concat())
    }

    /// The URL of such a server behind a proxy.
    pub fn url_through(proxy: &Proxy) -> String {
        let port = proxy.port();
        format!("postgres://{USER}@127.0.0.1:{port}/{USER}?sslmode=disable&{LONG_TIMEOUTS}")
    }

    /// The port of its socket, and on TCP if it listens there.
    pub fn port(&self) -> u16 {
        let port = self.settings.iter().find_map(|setting| setting.strip_prefix("port="));
        port.and_then(|port| port.parse().ok()).unwrap_or(PORT)
    }

    fn begin(directory: TempDir, programs: PathBuf, settings: &[&str]) -> Result<Self> {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let process = launch(directory.path(), &programs, &settings, None)?;
        let mut server = Self { directory, programs, settings, mounts: None, process };
        server.until_ready()?;
        Ok(server)
    }

    /// Kills its first process, as `kill -9` does.
    pub fn kill9(&mut self) -> Result<()> {
        child::kill(&mut self.process)
    }

    /// Ends it immediately, without writing anything more: an immediate shutdown.
    pub fn stop_at_once(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::QUIT)?;
        self.process.wait().map(drop)
    }

    /// Stops all its processes where they are.
    pub fn stop(&self) -> Result<()> {
        // From then on, the first process starts no others.
        kill_process(Pid::from_child(&self.process), Signal::STOP)?;
        self.signal_children(Signal::STOP)
    }

    /// Continues all its processes.
    pub fn cont(&self) -> Result<()> {
        self.signal_children(Signal::CONT)?;
        Ok(kill_process(Pid::from_child(&self.process), Signal::CONT)?)
    }

    fn signal_children(&self, signal: Signal) -> Result<()> {
        let parent = self.process.id().to_string();
        for process in fs::read_dir("/proc")?.flatten() {
            // Some processes have ended since, and some entries are no processes.
            let Ok(stat) = fs::read_to_string(process.path().join("stat")) else { continue };
            let Some((_, fields)) = stat.rsplit_once(") ") else { continue };
            let pid = process.file_name().to_str().and_then(|pid| pid.parse().ok());
            let pid = pid.and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| fields.split(' ').nth(1) == Some(&parent)) {
                match kill_process(pid, signal) {
                    Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                    Err(other) => return Err(other.into()),
                }
            }
        }
        Ok(())
    }

    /// Starts it again.
    pub fn restart(&mut self) -> Result<()> {
        self.process = self.launch()?;
        self.until_ready()
    }

    fn launch(&self) -> Result<Child> {
        let mounts = self.mounts.as_deref();
        launch(self.directory.path(), &self.programs, &self.settings, mounts)
    }

    /// Kills a process that serves a session of leasehold, if there is one, as the kernel does when
    /// memory runs out. The server then ends all other sessions, and recovers.
    pub fn kill_a_session(&self) -> Result<()> {
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'leasehold' LIMIT 1";
        let found = self.query(sql)?;
        match found.trim().parse().ok().and_then(Pid::from_raw) {
            Some(pid) => Ok(kill_process(pid, Signal::KILL)?),
            None => Ok(()),
        }
    }

    /// Waits until it accepts sessions. A killed server leaves processes behind, which keep the
    /// next server from the data for a moment: so that server is started again and again.
    fn until_ready(&mut self) -> Result<()> {
        until_ready(|| {
            if self.process.try_wait()?.is_some() {
                self.process = self.launch()?;
            }
            let mut asked = Command::new(self.programs.join("pg_isready"));
            read(asked.arg("-q").envs(self.environment())).map(drop)
        })
    }

    /// The store URL of its database for its superuser, with long timeouts for a busy machine.
    pub fn url(&self) -> String {
        self.url_as(USER)
    }

    /// The same for another role.
    pub fn url_as(&self, role: &str) -> String {
        url(role, self.directory.path(), self.port())
    }

    /// The URL of this server and another, one of which is the primary.
    pub fn url_with(&self, other: &Self) -> String {
        with_host_of(&self.url(), &other.url())
    }

    /// The process, to be stopped and continued with all that it has started.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// The environment in which `psql` finds it.
    pub fn environment(&self) -> [(&'static str, OsString); 4] {
        let host = self.directory.path().as_os_str().to_owned();
        [
            ("PGHOST", host),
            ("PGUSER", USER.into()),
            ("PGDATABASE", USER.into()),
            ("PGPORT", self.port().to_string().into()),
        ]
    }

    /// Runs statements, and returns the rows that they select: a line per row.
    pub fn query(&self, sql: &str) -> Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.envs(self.environment()).args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        read(psql.args(["-c", sql]))
    }

    /// A schema with all its contents, as a script.
    pub fn dump(&self, schema: &str) -> Result<String> {
        let mut dump = Command::new(self.programs.join("pg_dump"));
        read(dump.envs(self.environment()).args(["--schema", schema]))
    }

    /// Runs a script of `psql`, such as a dump.
    pub fn run(&self, script: &str) -> Result<()> {
        let file = self.directory.path().join("script.sql");
        fs::write(&file, script)?;
        let mut psql = Command::new(self.programs.join("psql"));
        psql.envs(self.environment()).args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f"]);
        read(psql.arg(&file)).map(drop)
    }
}

/// Starts a server on the data in a directory.
fn launch(
    directory: &Path,
    programs: &Path,
    settings: &[String],
    mounts: Option<&str>,
) -> Result<Child> {
    // In files of the directory, which go with it: a server that is killed leaves segments of POSIX
    // in the machine's memory.
    let memory = "dynamic_shared_memory_type=mmap";
    let words = ["-c", "listen_addresses=", "-c", memory, "-c"];
    let socket = format!("unix_socket_directories={}", directory.display());
    let program = programs.join("postgres");
    let mut server = as_user(&program, &words, Path::new(&socket))?;
    for setting in settings {
        server.extend(["-c".into(), setting.into()]);
    }
    server.extend(["-D".into(), directory.join("data").into_os_string()]);
    if clock::is_own(directory) {
        // After the change of the user: semaphores of faketime belong to the user that loads it.
        let at = server.iter().position(|word| *word == program).unwrap_or_default();
        server.splice(
            at..at,
            iter::once("env".into()).chain(clock::environment(directory)?.map(OsString::from)),
        );
    }
    if let Some(mounts) = mounts {
        let words = ["unshare", "--mount", "sh", "-c", mounts, "sh"];
        server.splice(..0, words.map(OsString::from));
    }
    child::spawn(PathBuf::from(&server[0]), server[1..].to_vec())
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A failure does no harm: the kernel ends the server with this process.
        let _ = self.kill9();
        // A server that was killed leaves a segment of memory, which this file names.
        let file = fs::read_to_string(self.directory.path().join("data/postmaster.pid"));
        if let Some(key_and_id) = file.unwrap_or_default().lines().nth(6) {
            let id = key_and_id.split_whitespace().nth(1).unwrap_or_default();
            let _ = Command::new("ipcrm").args(["-m", id]).output();
        }
    }
}

/// The URL of a database behind a socket.
pub(crate) fn url(role: &str, directory: &Path, port: u16) -> String {
    let host = directory.display().to_string().replace('/', "%2F");
    format!("postgres://{role}@{host}:{port}/{USER}?{LONG_TIMEOUTS}")
}

/// A URL with the host of another one, too.
pub(crate) fn with_host_of(own: &str, theirs: &str) -> String {
    let host = theirs.split_once('@').and_then(|(_, rest)| rest.split_once('/'));
    let host = host.map_or("", |(host, _)| host);
    own.replacen(&format!("/{USER}?"), &format!(",{host}/{USER}?"), 1)
}

/// The setting with a free port of TCP.
fn free_port() -> Result<String> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(format!("port={port}"))
}

/// Asks again and again until the answer is there.
pub(crate) fn until_ready<T>(mut is_ready: impl FnMut() -> Result<T>) -> Result<T> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match is_ready() {
            Ok(ready) => return Ok(ready),
            Err(error) if Instant::now() >= give_up => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
