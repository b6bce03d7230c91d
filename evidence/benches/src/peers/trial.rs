//! One measurement of one peer in one row: its processes against a private server.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::peers::histogram::Histogram;
use crate::peers::programs::{Peer, Programs};
use crate::peers::report::Report;
use crate::peers::row::{Row, TURN, Want};
use crate::server::{self, Done, Work};

/// How long a process may take to start, to warm up, or to end after its time. A lock whose waiters
/// sleep for the rest of a lease may exceed that.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Trial {
    entries: Vec<Vec<usize>>,
    pub(super) waits: Histogram,
    pub(super) longest: Duration,
    /// The memory of the process that had most.
    pub(super) rss_kib: u64,
    pub(super) done: Done,
}

impl Trial {
    pub(super) fn entries(&self) -> usize {
        self.of_processes().iter().sum()
    }

    pub(super) fn of_tasks(&self) -> Vec<usize> {
        self.entries.concat()
    }

    pub(super) fn of_processes(&self) -> Vec<usize> {
        self.entries.iter().map(|entries| entries.iter().sum()).collect()
    }

    /// Entries per second.
    pub(super) fn rate(&self) -> f64 {
        self.entries() as f64 / TURN.as_secs_f64()
    }
}

/// The best trial of each peer in a row, or the reason why there is none.
pub(super) type Trials = BTreeMap<usize, (&'static Peer, Result<Trial, String>)>;

/// Measures. If a peer fails, prints the reason, and measures the others all the same.
pub(super) fn run(programs: &Programs, peer: &Peer, row: Row) -> Outcome<Result<Trial, String>> {
    let server = server::start()?;
    let mut processes = Vec::new();
    for _ in 0..row.processes {
        let mut command = programs.command(peer)?;
        let mode = if row.want == Want::Hot { "hot" } else { "alone" };
        command.arg(server.port().to_string()).arg(mode).arg(row.tasks.to_string());
        command.arg(TURN.as_secs().to_string()).arg("name");
        processes.push(Process::start(command)?);
    }
    for process in &processes {
        if process.line().as_deref() != Some("ready") {
            return Ok(Err("did not start".to_owned()));
        }
    }
    let before = Work::of(&server)?;
    for process in &mut processes {
        writeln!(process.input, "go")?;
    }
    let lines: Option<Vec<String>> = processes.iter().map(Process::line).collect();
    let done = Work::of(&server)?.since(before);
    let Some(lines) = lines else { return Ok(Err("did not end".to_owned())) };
    let mut trial = Trial {
        entries: Vec::new(),
        waits: Histogram::default(),
        longest: Duration::ZERO,
        rss_kib: 0,
        done,
    };
    for line in lines {
        let report: Report = serde_json::from_str(&line)?;
        trial.waits.merge(&report.waits);
        trial.longest = trial.longest.max(Duration::from_secs_f64(report.longest_us / 1e6));
        trial.rss_kib = trial.rss_kib.max(report.rss_kib);
        trial.entries.push(report.entries);
    }
    Ok(Ok(trial))
}

/// A running process; it ends with this value.
struct Process {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Process {
    fn start(mut command: Command) -> Outcome<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or("no stdin")?;
        let output = child.stdout.take().ok_or("no stdout")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || read(output, &sender));
        Ok(Self { child, input, lines })
    }

    /// The next line that it prints, if that comes in time.
    fn line(&self) -> Option<String> {
        self.lines.recv_timeout(TURN + PATIENCE).ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(output: ChildStdout, lines: &mpsc::Sender<String>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if lines.send(line).is_err() {
            return;
        }
    }
}
