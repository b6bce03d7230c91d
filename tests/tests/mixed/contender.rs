//! Processes that want one lock, each through another library.

use std::process::Command;
use std::time::Duration;

use leasehold::{Client, Guard};
use leasehold_testkit::{Worker, installed, java, must, worker};
use rslock::LockManager;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mixed");

/// A lock that is held for as long as a busy machine may take for a few requests.
const LONG: Duration = Duration::from_secs(60);

/// A lock library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Jedis with the script that tutorials show.
    Jedis,
    NodeRedlock,
    Ours,
    RedisPy,
    Redsync,
    Rslock,
    ShedLock,
    /// Spring's `RedisLockRegistry`.
    Spring,
}

impl Kind {
    pub(crate) const FOREIGN: [Self; 7] = [
        Self::Jedis,
        Self::NodeRedlock,
        Self::RedisPy,
        Self::Redsync,
        Self::Rslock,
        Self::ShedLock,
        Self::Spring,
    ];

    /// How many processes of it count as many: a JVM takes more than its share of the machine.
    pub(crate) fn many(self) -> usize {
        match self {
            Self::Jedis | Self::ShedLock | Self::Spring => 2,
            Self::NodeRedlock | Self::Ours | Self::RedisPy | Self::Redsync | Self::Rslock => 8,
        }
    }

    /// A process of this kind. If it is not installed, prints that and returns `None`.
    pub(crate) fn start(self, ports: &[u16], name: &str) -> Option<Worker> {
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let arguments = [&ports.join(","), name];
        let mut command = match self {
            Self::Ours => return Some(Worker::start(&["ours", arguments[0], name])),
            Self::Rslock => return Some(Worker::start(&["rslock", arguments[0], name])),
            Self::Jedis | Self::ShedLock | Self::Spring => java("java", "Plain")?,
            Self::NodeRedlock => {
                let modules = installed("node")?.join("node_modules");
                let mut command = Command::new("node");
                command.env("NODE_PATH", modules).arg(format!("{PROGRAMS}/redlock.cjs"));
                command
            }
            Self::RedisPy => {
                let mut command = Command::new(installed("python")?.join("bin/python"));
                command.arg(format!("{PROGRAMS}/redis_py.py"));
                command
            }
            Self::Redsync => Command::new(installed("redsync")?.join("redsync")),
        };
        if let Self::Jedis | Self::ShedLock | Self::Spring = self {
            command.arg(format!("{self:?}").to_lowercase());
        }
        command.args(arguments);
        Some(Worker::of(command))
    }

    /// The word for the release of a lock that is not its own. Some libraries do not tell.
    pub(crate) fn says_when_refused(self) -> &'static str {
        if matches!(self, Self::Rslock | Self::ShedLock) { "released" } else { "refused" }
    }
}

/// Our store on these servers, where the keys are the names themselves.
pub(crate) fn url(ports: &[u16]) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let scheme = if hosts.len() > 1 { "redis+quorum" } else { "redis" };
    format!("{scheme}://{}?layout=plain&prefix=&timeout=10s", hosts.join(","))
}

/// In a worker: obeys each line, as the programs in `tests/mixed` do.
pub(crate) fn work(arguments: &[String]) {
    let [library, ports, name] = arguments else { panic!("{arguments:?}") };
    let ports: Vec<u16> = ports.split(',').map(|port| must(port.parse())).collect();
    let runtime = must(tokio::runtime::Builder::new_multi_thread().enable_all().build());
    runtime.block_on(async {
        let locks = Locks::open(library, &ports).await;
        let server = must(redis::Client::open(format!("redis://127.0.0.1:{}/", ports[0])));
        let mut data = must(server.get_connection());
        let mut held = None;
        let mut lines = worker::lines();
        while let Some(line) = lines.recv().await {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["acquire", ttl] => {
                    let ttl = Duration::from_millis(must(ttl.parse()));
                    held = Some(locks.acquire(name, ttl).await);
                    worker::say("acquired");
                }
                ["release"] => {
                    let let_go = match held.take() {
                        Some(held) => held.release().await,
                        None => false,
                    };
                    worker::say(if let_go { "released" } else { "refused" });
                }
                ["add", counter, rounds] => {
                    for _ in 0..must(rounds.parse::<usize>()) {
                        let held = locks.acquire(name, LONG).await;
                        worker::add(&mut data, counter);
                        assert!(held.release().await, "nobody else releases it");
                    }
                    worker::say("added");
                }
                _ => panic!("{line:?}"),
            }
        }
    });
}

enum Locks {
    Ours(Client),
    Rslock(LockManager),
}

enum Held {
    Ours(Guard),
    Rslock(rslock::LockGuard),
}

impl Locks {
    async fn open(library: &str, ports: &[u16]) -> Self {
        let urls = ports.iter().map(|port| format!("redis://127.0.0.1:{port}/"));
        match library {
            "ours" => Self::Ours(must(Client::connect(&url(ports)).await)),
            _ => Self::Rslock(LockManager::new(urls.collect())),
        }
    }

    async fn acquire(&self, name: &str, ttl: Duration) -> Held {
        match self {
            Self::Ours(client) => Held::Ours(must(client.mutex(name).ttl(ttl).acquire().await)),
            Self::Rslock(locks) => Held::Rslock(must(locks.acquire(name, ttl).await)),
        }
    }
}

impl Held {
    /// Releases; false if the lock was lost before.
    async fn release(self) -> bool {
        match self {
            Self::Ours(guard) => guard.release().await.is_ok(),
            Self::Rslock(guard) => {
                guard.release().await;
                true
            }
        }
    }
}
