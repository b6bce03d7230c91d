//! A private store, and the real program on it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_testkit::RedisServer;
pub(crate) use leasehold_testkit::harness::{PATIENCE, until_so as until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process, test_kill_process_group};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");

/// A directory, and a store in it or outside it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: TempDir,
    pub(crate) server: Option<RedisServer>,
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn on_file() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file:{}", directory.path().join("locks.db").display());
        Self { directory, server: None, url }
    }

    pub(crate) fn on_redis() -> Self {
        Self::on_redis_with("")
    }

    /// A place on a server, with these options in the store URL.
    pub(crate) fn on_redis_with(options: &str) -> Self {
        let server = RedisServer::start().unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self { directory, url: format!("{}&{options}", server.patient_url()), server: Some(server) }
    }

    /// A place on a store that the caller keeps.
    pub(crate) fn at(url: String) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), server: None, url }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The program in this directory, on this store.
    pub(crate) fn leasehold(&self, arguments: &[&str]) -> Command {
        self.program(PROGRAM, arguments)
    }

    /// Any program in this directory, for which leasehold is on this store.
    pub(crate) fn program(&self, program: &str, arguments: &[&str]) -> Command {
        // If a script starts a test in the background, the test ignores INT. Its children would
        // ignore INT, too.
        let mut command = Command::new("env");
        command.arg("--default-signal").arg(program).args(arguments);
        command.current_dir(self.directory.path());
        command.env("LEASEHOLD_STORE", &self.url).env("HOME", self.directory.path());
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        for inherited in ["XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env_remove(inherited);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A script that finds leasehold on its path.
    pub(crate) fn script(&self, path: &Path, arguments: &[&str]) -> Command {
        let mut command = self.program(&path.to_string_lossy(), arguments);
        let own = Path::new(PROGRAM).parent().unwrap_or(Path::new("/"));
        let found = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{found}", own.display()));
        command
    }

    pub(crate) fn write_script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// `leasehold run NAME OPTIONS -- sh -c SCRIPT`.
    pub(crate) fn shell(&self, name: &str, options: &[&str], script: &str) -> Command {
        let arguments = [&["run", name], options, &["--", "sh", "-c", script]].concat();
        self.leasehold(&arguments)
    }

    /// A process that holds a lock until its stdin is closed.
    pub(crate) fn holder(&self, name: &str, options: &[&str]) -> Background {
        let mut holder = Background::fed(self.shell(name, options, "echo held; cat"));
        assert_eq!(holder.line(), "held");
        holder
    }

    /// The same as [`Self::shell`], once it waits for the lock, and nobody else does.
    pub(crate) fn waiter(&self, name: &str, options: &[&str], script: &str) -> Background {
        let waiter = Background::start(self.shell(name, options, script));
        until("it waits", || self.show(name)["waiting"] == 1);
        waiter
    }

    /// Takes the lease of a name away, as an operator does.
    #[track_caller]
    pub(crate) fn revoke(&self, name: &str, options: &[&str]) {
        let token = self.token(name).unwrap();
        self.end(&[&["revoke", name, &token], options].concat()).assert_silent(0);
    }

    pub(crate) fn end(&self, arguments: &[&str]) -> Ended {
        ended(self.leasehold(arguments))
    }

    /// The status of a lock, as JSON.
    pub(crate) fn show(&self, name: &str) -> serde_json::Value {
        json(&self.end(&["show", name, "--json"]).stdout)
    }

    /// The token of the holder, once the store knows it.
    pub(crate) fn token(&self, name: &str) -> Option<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let shown = self.show(name);
            // The token of a fresh lease is shown a moment later.
            match &shown["holders"].get(0)?["token"] {
                serde_json::Value::String(token) => return Some(token.clone()),
                _ => assert!(Instant::now() < until, "its token is not shown: {shown}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code as in a shell: 128 and the signal, if a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) dumped_core: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let signal = output.status.signal();
        Self {
            code: output.status.code().or(signal.map(|signal| 128 + signal)),
            signal,
            dumped_core: output.status.core_dumped(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Checks that it ended with this code, and one line on stderr that has `words`.
    #[track_caller]
    pub(crate) fn assert_failed(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        // On a busy machine, a process that was killed may be there for two seconds more.
        let is_slow = |line: &&str| line.contains("was killed and has not ended yet");
        let lines: Vec<_> = self.stderr.split_inclusive('\n').filter(|it| !is_slow(it)).collect();
        assert_eq!(lines.len(), 1, "{self:?}");
        assert!(lines[0].starts_with("leasehold: "), "{self:?}");
        assert!(lines[0].contains(words), "{words:?} is missing: {self:?}");
    }

    /// Checks that it ended with this code, whatever its output.
    #[track_caller]
    pub(crate) fn assert_ended(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{self:?}");
    }

    /// Checks that it ended with this code, and printed no message.
    #[track_caller]
    pub(crate) fn assert_silent(&self, code: i32) {
        assert_eq!((self.code, self.stderr.as_str()), (Some(code), ""), "{self:?}");
    }
}

/// The output of a program that ends by itself. If it hangs, it is killed, and the test fails.
#[track_caller]
pub(crate) fn ended(mut command: Command) -> Ended {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    output_of(command.spawn().unwrap())
}

#[track_caller]
fn output_of(child: Child) -> Ended {
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(PATIENCE) {
        Ok(output) => Ended::of(output.unwrap()),
        Err(_) => {
            kill_process(pid, Signal::KILL).unwrap();
            let output = receiver.recv_timeout(Duration::from_secs(1));
            panic!("{pid} did not end: {output:?}");
        }
    }
}

/// A program that runs in the background and does not outlive the test.
#[derive(Debug)]
pub(crate) struct Background(Option<Child>);

impl Background {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// The same, with a stdin that stays open until [`Self::close_stdin`].
    pub(crate) fn fed(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::start(command)
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.child().stdin.take());
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The next line of stdout.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let watch = self.watch();
        let line = line(self.child().stdout.as_mut().unwrap());
        watch.ended(&line);
        line
    }

    /// The next line of stderr.
    #[track_caller]
    pub(crate) fn error_line(&mut self) -> String {
        let watch = self.watch();
        let line = line(self.child().stderr.as_mut().unwrap());
        watch.ended(&line);
        line
    }

    /// Kills the program if it prints nothing for too long.
    fn watch(&self) -> Watch {
        let (pid, (done, receiver)) = (self.pid(), mpsc::channel::<()>());
        let watching = thread::spawn(move || {
            let is_late = receiver.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_late {
                let _is_gone = kill_process(pid, Signal::KILL);
            }
            is_late
        });
        Watch { done, watching }
    }

    /// The output until the program ended by itself. If it hangs, it is killed, and the test fails.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        output_of(self.0.take().unwrap())
    }
}

/// Kills a program that prints nothing.
struct Watch {
    done: mpsc::Sender<()>,
    watching: thread::JoinHandle<bool>,
}

impl Watch {
    #[track_caller]
    fn ended(self, line: &str) {
        drop(self.done);
        assert!(!self.watching.join().unwrap(), "no line within {PATIENCE:?}, only {line:?}");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // The guardian ends the command that it ran.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads up to the end of a line, and not further.
fn line(stream: &mut impl Read) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

#[track_caller]
pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text:?}"))
}

/// The process that a line names.
pub(crate) fn pid(line: &str) -> Pid {
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

pub(crate) fn group_is_gone(group: Pid) -> bool {
    test_kill_process_group(group).is_err()
}

/// Whether the process has ended; its parent may not have waited for it.
pub(crate) fn is_gone(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    let is_zombie = stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" Z"));
    is_zombie || test_kill_process(process).is_err()
}

pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        // The name of the program may have spaces, and is in the last pair of brackets.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let ppid: i32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        (ppid == parent.as_raw_nonzero().get()).then(|| Pid::from_raw(pid)).flatten()
    });
    all.collect()
}

/// Runs each of these tests on both stores.
macro_rules! on_each_store {
    ($($name:ident),* $(,)?) => {
        mod on_file {
            $(#[test] fn $name() { super::$name(&$crate::harness::Place::on_file()); })*
        }
        mod on_redis {
            $(#[test] fn $name() { super::$name(&$crate::harness::Place::on_redis()); })*
        }
    };
}

/// Runs each of these tests on a database, too.
macro_rules! on_postgres {
    ($($name:ident),* $(,)?) => {
        mod on_postgres {
            $(#[test] fn $name() {
                if let Some((place, _server)) = crate::postgres::shared() {
                    super::$name(&place);
                }
            })*
        }
    };
}
