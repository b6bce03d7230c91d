//! The file store compared with flock(2) and flock(1) of util-linux: one machine, no server.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::Table;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::measure::{Times, span};
use crate::outcome::Outcome;
use crate::process;

/// The hidden task of this program that waits for a lock: its own name, the URL, the lock.
pub(crate) const WAIT: &str = "wait-until-killed";

/// The number of samples of what takes microseconds, and of what starts a process.
const PAIRS: usize = 3_000;
const COMMANDS: usize = 100;

const HAND_OVERS: usize = 300;

/// The time after which a started waiter has certainly begun to wait.
const SETTLE: Duration = Duration::from_millis(5);

/// Waiting processes, and how long they are watched.
const WAITERS: usize = 100;
const IDLE: Duration = Duration::from_secs(10);

/// Prints two tables.
pub(crate) async fn run() -> Outcome {
    let directory = tempfile::tempdir()?;
    let url = format!("file:{}", directory.path().join("locks.db").display());
    let mut table = Table::new("File store", &["", "median", "p99", "longest"]);
    let mut row = |what: &str, times: &Times| {
        let (median, p99, longest) = (times.median(), times.quantile(0.99), times.longest());
        table.row([what.to_owned(), span(median), span(p99), span(longest)]);
    };
    row("acquire + release, leasehold", &pairs(&url).await?);
    row("acquire + release, flock(2)", &flock_pairs(directory.path())?);
    row("hand-over to a waiter, leasehold", &hand_overs(&url).await?);
    row("hand-over to a waiter, flock(2)", &flock_hand_overs(directory.path())?);
    row("`leasehold run NAME -- true`", &commands(leasehold_command(&url)?)?);
    row("`flock FILE true`", &commands(flock_command(directory.path()))?);
    println!("{table}");
    let mut table = Table::new("File store: waiting", &["", "CPU, all together", "of one core"]);
    let used = idle_waiters(&directory, &url).await?;
    let share = format!("{:.2} %", used.as_secs_f64() * 100.0 / IDLE.as_secs_f64());
    table.row([format!("{WAITERS} processes, {IDLE:?}"), span(used), share]);
    println!("{table}");
    Ok(())
}

async fn pairs(url: &str) -> Outcome<Times> {
    let client = Client::connect(url).await?;
    let mut times = Vec::new();
    for _ in 0..PAIRS {
        let asked = Instant::now();
        client.mutex("pair").acquire().await?.release().await?;
        times.push(asked.elapsed());
    }
    client.close().await?;
    Ok(Times::new(times))
}

fn flock_pairs(directory: &Path) -> Outcome<Times> {
    let file = File::create(directory.join("pair.lock"))?;
    let mut times = Vec::new();
    for _ in 0..PAIRS {
        let asked = Instant::now();
        flock(&file, FlockOperation::LockExclusive)?;
        flock(&file, FlockOperation::Unlock)?;
        times.push(asked.elapsed());
    }
    Ok(Times::new(times))
}

/// From just before a release to the entry of the waiter, a separate client.
async fn hand_overs(url: &str) -> Outcome<Times> {
    let (first, second) = (Client::connect(url).await?, Client::connect(url).await?);
    let mut times = Vec::new();
    for _ in 0..HAND_OVERS {
        let guard = first.mutex("hand-over").acquire().await?;
        let waiting = second.mutex("hand-over");
        let waiting = tokio::spawn(async move {
            let guard = waiting.acquire().await?;
            let entered = Instant::now();
            guard.release().await?;
            Outcome::Ok(entered)
        });
        while first.admin().inspect(guard.name()).await?.waiting == 0 {
            tokio::time::sleep(SETTLE).await;
        }
        let released = Instant::now();
        guard.release().await?;
        times.push(waiting.await??.duration_since(released));
    }
    first.close().await?;
    second.close().await?;
    Ok(Times::new(times))
}

fn flock_hand_overs(directory: &Path) -> Outcome<Times> {
    let path = directory.join("hand-over.lock");
    let mut times = Vec::new();
    for _ in 0..HAND_OVERS {
        let file = File::create(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let (path, (begin, begun)) = (path.clone(), mpsc::channel());
        let waiting = thread::spawn(move || {
            let file = File::create(path)?;
            let _ = begin.send(());
            flock(&file, FlockOperation::LockExclusive)?;
            Outcome::Ok(Instant::now())
        });
        begun.recv()?;
        thread::sleep(SETTLE);
        let released = Instant::now();
        flock(&file, FlockOperation::Unlock)?;
        let entered = waiting.join().map_err(|_| "the waiting thread panicked")?;
        times.push(entered?.duration_since(released));
    }
    Ok(Times::new(times))
}

/// The command of this workspace, built beside this program.
fn leasehold_command(url: &str) -> Outcome<Command> {
    let program = std::env::current_exe()?.with_file_name("leasehold");
    if !program.exists() {
        let remedy = "cargo build --release --package leasehold-cli";
        return Err(format!("{} is missing: run `{remedy}`", program.display()).into());
    }
    let mut command = Command::new(program);
    command.args(["run", "--store", url, "command", "--", "true"]);
    Ok(command)
}

fn flock_command(directory: &Path) -> Command {
    let mut command = Command::new("flock");
    command.arg(directory.join("command.lock")).arg("true");
    command
}

fn commands(mut command: Command) -> Outcome<Times> {
    let mut times = Vec::new();
    for _ in 0..COMMANDS {
        let asked = Instant::now();
        let end = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !end?.success() {
            return Err(format!("{command:?} failed").into());
        }
        times.push(asked.elapsed());
    }
    Ok(Times::new(times))
}

/// The processor time of processes that all wait for one lock.
async fn idle_waiters(directory: &TempDir, url: &str) -> Outcome<Duration> {
    let client = Client::connect(url).await?;
    let guard = client.mutex("idle").acquire().await?;
    let mut waiters = Waiters(Vec::new());
    let program = std::env::current_exe()?;
    for _ in 0..WAITERS {
        let mut command = Command::new(&program);
        command.args([WAIT, url, "idle"]).current_dir(directory.path());
        waiters.0.push(command.stdin(Stdio::null()).spawn()?);
    }
    while client.admin().inspect(guard.name()).await?.waiting < WAITERS as u32 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = waiters.cpu()?;
    tokio::time::sleep(IDLE).await;
    let used = waiters.cpu()?.saturating_sub(before);
    drop(waiters);
    guard.release().await?;
    client.close().await?;
    Ok(used)
}

/// The work of one of the waiting processes.
pub(crate) async fn wait(url: &str, name: &str) -> Outcome {
    let guard = Client::connect(url).await?.mutex(name).acquire().await?;
    Ok(guard.release().await?)
}

/// Processes that end when their owner is dropped.
struct Waiters(Vec<Child>);

impl Waiters {
    fn cpu(&self) -> Outcome<Duration> {
        self.0.iter().map(|child| process::cpu(child.id())).sum()
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A process that has already ended is fine.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
