//! The cost of holding and waiting while a store cannot be reached: processes with many waiters,
//! observed from outside.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold::Client;
use nix::time::ClockId;
use nix::unistd::Pid;
use tokio::task::JoinSet;

use crate::harness::{LOOK_EVERY, PATIENCE, must};
use crate::worker::{Worker, listen, say};

/// A listener in the place of a server: it counts clients that connect, and sends them away.
#[derive(Debug)]
pub struct Refusing {
    port: u16,
    count: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Refusing {
    /// Takes the place of a server that was killed.
    pub fn at(port: u16) -> io::Result<Self> {
        let since = Instant::now();
        let listener = loop {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse && since.elapsed() < PATIENCE =>
                {
                    thread::sleep(LOOK_EVERY);
                }
                outcome => break outcome?,
            }
        };
        let (count, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (counted, ends) = (Arc::clone(&count), Arc::clone(&is_over));
        let accepting = thread::spawn(move || {
            while let Ok(connection) = listener.accept() {
                drop(connection);
                if ends.load(Ordering::Acquire) {
                    return;
                }
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { port, count, is_over, accepting: Some(accepting) })
    }

    /// How many clients have connected.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // The thread waits for a connection, so it gets one.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        drop(self.accepting.take().map(JoinHandle::join));
    }
}

/// The resources that a process has used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time so far.
    pub cpu: Duration,
    /// Memory that the process wrote and that is in RAM, in bytes. Pages of the program do not
    /// count: the system drops them and reads them again.
    pub memory: u64,
}

impl Usage {
    /// The usage of a process, now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let nonsense = || io::Error::new(ErrorKind::InvalidData, format!("/proc/{pid}"));
        // The clock of a process also counts the threads that have ended.
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.cast_signed()))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kb = anonymous.and_then(|kb| kb.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(Self { cpu: clock.now()?.into(), memory: kb.ok_or_else(nonsense)? * 1024 })
    }
}

/// The ttls of a client's leases: renewals of one fail soon, and the other outlives a minute.
const HELD: [Duration; 2] = [Duration::from_secs(9), Duration::from_secs(60)];

/// In a worker: each of `clients` clients holds two leases and waits with `tasks` tasks, each for a
/// different name that begins with `prefix`. Says when they wait and when all have had their turn.
/// They begin when the worker is told to.
pub async fn wait_it_out(url: &str, prefix: &str, clients: usize, tasks: usize) {
    let own = std::process::id();
    let (mut crowd, mut held) = (Vec::new(), Vec::new());
    for number in 0..clients {
        let client = must(Client::connect(url).await);
        for ttl in HELD {
            let name = format!("{prefix}/held/{own}/{number}/{}", ttl.as_secs());
            held.push(must(client.mutex(name).ttl(ttl).acquire().await));
        }
        crowd.push(client);
    }
    say("ready");
    listen();
    let mut waiting = JoinSet::new();
    for (number, client) in crowd.iter().enumerate() {
        for task in 0..tasks {
            let lock = client.mutex(format!("{prefix}/{own}/{number}/{task}"));
            waiting.spawn(async move { must(must(lock.acquire().await).release().await) });
        }
    }
    say("waiting");
    while let Some(served) = waiting.join_next().await {
        must(served);
    }
    drop(held);
    say("served");
}

/// Processes that wait, and what they had used when they began.
#[derive(Debug)]
pub struct Crowd {
    workers: Vec<(Worker, Usage)>,
    began: Instant,
}

/// The cost of an outage for each process.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// How long the outage was.
    pub span: Duration,
    /// The most processor time that one of them used.
    pub cpu: Duration,
    /// The most memory that one of them used in addition, in bytes.
    pub memory: u64,
}

impl Crowd {
    /// Waits until workers that do [`wait_it_out`] are ready, takes the store away, and lets them
    /// wait.
    pub fn wait<T>(
        mut workers: Vec<Worker>,
        take_away: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<(Self, T)> {
        workers.iter_mut().for_each(|worker| worker.expect("ready"));
        let gone = take_away()?;
        let began = Instant::now();
        let mut crowd = Self { workers: Vec::new(), began };
        for mut worker in workers {
            let before = Usage::of(worker.pid())?;
            worker.ask("wait", "waiting");
            crowd.workers.push((worker, before));
        }
        Ok((crowd, gone))
    }

    /// The cost of the outage so far.
    pub fn cost(&self) -> io::Result<Cost> {
        let (mut cpu, mut memory) = (Duration::ZERO, 0);
        for (worker, before) in &self.workers {
            let now = Usage::of(worker.pid())?;
            cpu = cpu.max(now.cpu.saturating_sub(before.cpu));
            memory = memory.max(now.memory.saturating_sub(before.memory));
        }
        Ok(Cost { span: self.began.elapsed(), cpu, memory })
    }

    /// Waits until every waiter was served, and returns how long that took.
    pub fn until_served(mut self) -> Duration {
        let since = Instant::now();
        self.workers.iter_mut().for_each(|(worker, _)| worker.expect("served"));
        let took = since.elapsed();
        self.workers.into_iter().for_each(|(worker, _)| worker.finish());
        took
    }
}
