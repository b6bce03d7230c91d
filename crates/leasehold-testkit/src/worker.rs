//! Real processes for tests: the test program starts itself again, to do one job.
//!
//! ```text
//! #[test]
//! #[ignore = "a job of the tests above, for a separate process"]
//! fn job() {
//!     match worker::arguments().as_slice() { … }
//! }
//! ```

use std::env;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio, exit};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::harness::must;

/// Carries the arguments of a job, one per line.
const ARGUMENTS: &str = "LEASEHOLD_TEST_JOB";

/// Precedes each line of a job, to distinguish it from other output of the test program.
const MARK: &str = "@@ ";

/// A process that does the job `job` of this test program. It ends with its parent.
#[derive(Debug)]
pub struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a process.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(&[], arguments)
    }

    /// Starts a process with these variables in its environment as well.
    pub fn start_in(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = Command::new(must(env::current_exe()));
        command.envs(environment.iter().copied());
        Self::of(with_job(command, arguments))
    }

    /// Starts a process by a program that becomes another program, such as `unshare`.
    pub fn start_by(program: &[&str], arguments: &[&str]) -> Self {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(must(env::current_exe()));
        Self::of(with_job(command, arguments))
    }

    /// Starts another program, which prints lines as [`say`] does and must end with its stdin.
    pub fn of(mut command: Command) -> Self {
        let mut process = must(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn());
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            panic!("a worker without pipes")
        };
        Self { process, input, output: BufReader::new(output) }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line that it says; none when it has ended.
    pub fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            // A killed process may have broken off in the middle of a line.
            if self.output.read_line(&mut line).ok()? == 0 || !line.ends_with('\n') {
                return None;
            }
            if let Some((_, said)) = line.trim_end().split_once(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Waits until it says this.
    #[track_caller]
    pub fn expect(&mut self, said: &str) {
        let heard = self.hear();
        assert_eq!(heard.as_deref(), Some(said));
    }

    /// Says something to it. It may have ended.
    pub fn tell(&mut self, line: &str) {
        let _ = writeln!(self.input, "{line}");
    }

    /// Says something to it, and expects this answer.
    #[track_caller]
    pub fn ask(&mut self, line: &str, answer: &str) {
        self.tell(line);
        self.expect(answer);
    }

    /// Ends it as `kill -9` does.
    pub fn kill9(&mut self) {
        let _ = self.process.kill();
        must(self.process.wait());
    }

    /// Stops its process.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues its process.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until it has done its job.
    #[track_caller]
    pub fn finish(mut self) {
        while self.hear().is_some() {}
        let status = must(self.process.wait());
        assert!(status.success(), "a worker failed: {status}");
    }

    fn signal(&self, signal: Signal) {
        must(kill_process(Pid::from_child(&self.process), signal));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The command that makes this test program do the job `job` and nothing else.
fn with_job(mut command: Command, arguments: &[&str]) -> Command {
    command.args(["--exact", "job", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ARGUMENTS, arguments.join("\n"));
    command
}

/// In a worker: the arguments of its job.
pub fn arguments() -> Vec<String> {
    let arguments = must(env::var(ARGUMENTS));
    arguments.split('\n').map(str::to_owned).collect()
}

/// In a worker: adds one to a number, protected only by the lock that all of them hold in turn.
pub fn add(data: &mut redis::Connection, counter: &str) {
    let inside = format!("{counter}:inside");
    let count: u64 = must(redis::cmd("INCR").arg(&inside).query(data));
    assert_eq!(count, 1, "this many hold the lock");
    let value: Option<u64> = must(redis::cmd("GET").arg(counter).query(data));
    must(redis::cmd("SET").arg(counter).arg(value.unwrap_or(0) + 1).exec(data));
    must(redis::cmd("DECR").arg(&inside).exec(data));
}

/// In a worker: says something to the parent.
pub fn say(line: &str) {
    // If the parent has gone, there is no use in going on.
    if writeln!(stdout(), "{MARK}{line}").and_then(|()| stdout().flush()).is_err() {
        exit(1);
    }
}

/// In a worker: waits for the next thing that the parent says, and ends with the parent.
pub fn listen() -> String {
    let mut line = String::new();
    if stdin().read_line(&mut line).unwrap_or(0) == 0 {
        exit(1);
    }
    line.trim_end().to_owned()
}

/// In a worker: what the parent says. It ends with the parent, also while it waits for a lock.
pub fn lines() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    // The thread lives as long as the process, so nobody joins it.
    thread::spawn(move || while sender.send(listen()).is_ok() {});
    lines
}

/// In a worker that does not listen: ends it when the parent has ended.
pub fn end_with_parent() {
    // The thread lives as long as the process, so nobody joins it.
    thread::spawn(|| {
        loop {
            listen();
        }
    });
}
