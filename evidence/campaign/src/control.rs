//! Negative controls: processes that lock with `SET NX PX` instead of leasehold, by usual
//! libraries.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold_testkit::{RedisServer, SentinelFleet, Worker, must, worker};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::place::{Place, Servers};
use crate::plan::{Plan, REGISTERS};
use crate::promise::{Log, now_ns};
use crate::random::Random;
use crate::register;

/// Where `cargo xtask test` installs what is not Rust, and the directory of the programs.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mixed");
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../controls");

/// Tasks of each process.
const TASKS: usize = 8;

/// How long a library pauses after an error.
const REST: Duration = Duration::from_millis(50);

/// A place that gives no answer is given up after this.
const PATIENCE: Duration = Duration::from_secs(2);

/// A library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    NodeRedlock,
    RedisPy,
    Redisson,
    Rslock,
    Rueidislock,
}

impl Control {
    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeRedlock => "node-redlock",
            Self::RedisPy => "redis-py",
            Self::Redisson => "Redisson",
            Self::Rslock => "rslock",
            Self::Rueidislock => "rueidislock",
        }
    }

    /// The program, if it is not in Rust: a directory of installed libraries, and the command to
    /// run it.
    fn program(self) -> Option<(&'static str, Vec<String>)> {
        let program = |name: &str| format!("{PROGRAMS}/{name}");
        match self {
            Self::NodeRedlock => Some(("node", vec!["node".to_owned(), program("redlock.cjs")])),
            Self::RedisPy => {
                let python = format!("{INSTALLED}/python/bin/python");
                Some(("python", vec![python, program("redis_py.py")]))
            }
            Self::Redisson => {
                let path = format!("{INSTALLED}/redisson/classes:{INSTALLED}/redisson/lib/*");
                let java =
                    ["java", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"];
                let java = java.map(str::to_owned).into_iter().chain([path, "Control".to_owned()]);
                Some(("redisson", java.collect()))
            }
            Self::Rslock => None,
            Self::Rueidislock => {
                let program = format!("{INSTALLED}/rueidislock/rueidislock");
                Some(("rueidislock", vec![program]))
            }
        }
    }

    /// Whether it is installed on this machine.
    pub(crate) fn is_installed(self) -> bool {
        // This is installed last: without it, the installation is not complete.
        let is_there = |name| Path::new(INSTALLED).join(name).join("installed").exists();
        self.program().is_none_or(|(directory, _)| is_there(directory))
    }

    /// Starts a process.
    pub(crate) fn start(self, address: &str, call: &Call<'_>) -> Worker {
        let words = call.words(address, TASKS);
        match self.program() {
            None => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                Worker::start(&[&["rslock"], &words[..]].concat())
            }
            Some((_, program)) => {
                let mut command = Command::new(&program[0]);
                command.args(&program[1..]).args(words);
                command.env("NODE_PATH", Path::new(INSTALLED).join("node/node_modules"));
                Worker::of(command)
            }
        }
    }
}

/// The arguments of a program that only updates values.
pub(crate) struct Call<'a> {
    /// The port of the protected values.
    pub(crate) protected: u16,
    /// The directory for its output.
    pub(crate) directory: &'a Path,
    pub(crate) number: u64,
    pub(crate) seed: u64,
    pub(crate) ttl: Duration,
}

impl Call<'_> {
    /// The arguments, with the address of the locks and the number of tasks.
    pub(crate) fn words(&self, address: &str, tasks: usize) -> Vec<String> {
        vec![
            address.to_owned(),
            self.protected.to_string(),
            self.directory.join(format!("{}.log", self.number)).display().to_string(),
            self.number.to_string(),
            // Not every language has wide numbers.
            (self.seed >> 16).to_string(),
            tasks.to_string(),
            self.ttl.as_millis().to_string(),
            REGISTERS.to_string(),
        ]
    }
}

/// The program with Redisson, if it is installed.
pub(crate) fn redisson() -> Option<Command> {
    let (_, words) = Control::Redisson.program().filter(|_| Control::Redisson.is_installed())?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    Some(command)
}

/// The address of the locks, in the form for the programs; `None` if no program can use them.
pub(crate) fn address(place: &Place) -> Option<String> {
    let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    match &place.servers {
        Servers::Independent(_) => {
            let proxies = place.ports();
            let kind = if proxies.len() > 1 { "nodes" } else { "one" };
            Some(format!("{kind},{}", ports(&proxies)))
        }
        Servers::Watched(fleet) => {
            let sentinels: Vec<_> = fleet.sentinels().iter().map(RedisServer::port).collect();
            Some(format!("sentinel,{},{}", SentinelFleet::SERVICE, ports(&sentinels)))
        }
        Servers::None
        | Servers::Replicated(_)
        | Servers::Cluster(_)
        | Servers::Postgres(..)
        | Servers::PostgresPair(_) => None,
    }
}

/// In a process with rslock: does the same as the programs in `controls`.
pub(crate) fn work(arguments: &[String]) {
    let [place, protected, log, number, seed, tasks, ttl, names] = arguments else {
        panic!("{arguments:?}")
    };
    let addresses = place.split(',').skip(1).map(|port| format!("redis://127.0.0.1:{port}/"));
    let directory = Path::new(log).parent().unwrap_or(Path::new("."));
    let log = Arc::new(Log::create(directory, must(number.parse())));
    let mut random = Random::new(must(seed.parse()));
    let (tasks, names): (usize, usize) = (must(tasks.parse()), must(names.parse()));
    let ttl = Duration::from_millis(must(ttl.parse()));
    let (is_over, served) = (Arc::new(AtomicBool::new(false)), Arc::<AtomicU64>::default());
    let runtime = must(Builder::new_multi_thread().worker_threads(2).enable_all().build());
    runtime.block_on(async {
        let values = register::connect(must(protected.parse())).await;
        let locks = LockManager::new(addresses.collect());
        let mut all = JoinSet::new();
        for _ in 0..tasks {
            let task = Task {
                locks: locks.clone(),
                values: values.clone(),
                log: Arc::clone(&log),
                random: Random::new(random.seed()),
                names,
                ttl,
            };
            all.spawn(task.run(Arc::clone(&is_over), Arc::clone(&served)));
        }
        let listening = thread::spawn(worker::listen);
        must(tokio::task::spawn_blocking(|| listening.join()).await).unwrap();
        is_over.store(true, Ordering::Relaxed);
        while all.join_next().await.is_some() {}
    });
    worker::say(&format!("served {}", served.load(Ordering::Relaxed)));
}

struct Task {
    locks: LockManager,
    values: MultiplexedConnection,
    log: Arc<Log>,
    random: Random,
    names: usize,
    ttl: Duration,
}

impl Task {
    async fn run(mut self, is_over: Arc<AtomicBool>, served: Arc<AtomicU64>) {
        while !is_over.load(Ordering::Relaxed) {
            match self.turn().await {
                Some(()) => drop(served.fetch_add(1, Ordering::Relaxed)),
                None => sleep(REST).await,
            }
        }
    }

    async fn turn(&mut self) -> Option<()> {
        let name = Plan::register(self.random.below(self.names));
        let asked = now_ns();
        let taken = timeout(PATIENCE, self.locks.lock(name.as_str(), self.ttl)).await;
        let lock = taken.ok()?.ok()?;
        let (entered, own) = (now_ns(), self.log.fresh(0));
        let until = entered + u64::try_from(lock.validity_time).unwrap_or(0) * 1_000_000;
        self.log.line(&format!("g {name} {own} {asked} {entered} {own} {own} 1"));
        let value = self.log.fresh(0);
        self.log.invoked(&name, value, 0);
        let old: Option<u64> = must(self.values.get(&name).await);
        sleep(self.random.up_to(Duration::from_millis(10))).await;
        must(self.values.set::<_, _, ()>(&name, value).await);
        self.log.returned(value, old.unwrap_or(0));
        let left = now_ns().min(until);
        if left > entered {
            self.log.line(&format!("p {name} {own} {own} {entered} {left} {own} 1 1"));
        }
        drop(timeout(PATIENCE, self.locks.unlock(&lock)).await);
        Some(())
    }
}
