//! Processes that want one lock: JVMs with Redisson, and our own.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Client, Guard, Lock};
use leasehold_testkit::{Cluster, RedisServer, SentinelFleet, Worker, must, redisson_peer, worker};
use redis::Connection;

/// A lock that is held for as long as a busy machine may take for a few requests.
const LONG: Duration = Duration::from_secs(30);

pub(crate) const NAME: &str = "jobs/nightly";

/// The place of the lock, in the forms for both sides.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The kind of deployment, a port, and what else the program in Java needs.
    java: String,
    url: String,
    /// A server with the data that the lock protects.
    data: u16,
}

/// The key of the protected data. In a cluster, all of it is in one slot.
pub(crate) const COUNTER: &str = "{counter}";

impl Place {
    pub(crate) fn one(server: &RedisServer) -> Self {
        Self::port(server.port(), server.port())
    }

    /// A server that is reached through something else.
    pub(crate) fn port(port: u16, data: u16) -> Self {
        let url = format!("redis://127.0.0.1:{port}?timeout=10s");
        Self { java: format!("one,{port}"), url, data }
    }

    /// The same place, where messages come to the JVM as pushes.
    pub(crate) fn in_resp3(&self) -> Self {
        Self { java: format!("{},resp3", self.java), ..self.clone() }
    }

    pub(crate) fn cluster(cluster: &Cluster) -> Self {
        let node = must(cluster.owner(must(cluster.slot_of(COUNTER))));
        let java = format!("cluster,{}", cluster.node(0).port());
        let url = format!("{}?timeout=10s", cluster.url());
        Self { java, url, data: cluster.node(node).port() }
    }

    pub(crate) fn sentinel(fleet: &SentinelFleet) -> Self {
        let primary = must(fleet.primary().ok_or("the sentinels agree"));
        let java = format!("sentinel,{},{}", fleet.sentinels()[0].port(), SentinelFleet::SERVICE);
        let url = format!("{}?timeout=10s", fleet.url());
        Self { java, url, data: fleet.servers().servers()[primary].port() }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}&layout=redisson", self.url)
    }

    pub(crate) async fn client(&self) -> Client {
        must(Client::connect(&self.url()).await)
    }

    /// A JVM with this interval of its watchdog; `None`, with a message, if it was not built.
    pub(crate) fn jvm(&self, watchdog: Duration) -> Option<Worker> {
        redisson_peer(&self.java, NAME, watchdog)
    }

    /// A process of our own.
    pub(crate) fn ours(&self) -> Worker {
        self.ours_of("redisson")
    }

    /// A process of our own, with this layout.
    pub(crate) fn ours_of(&self, layout: &str) -> Worker {
        let url = format!("{}&layout={layout}", self.url);
        let mut ours = Worker::start(&[&url, &self.data.to_string()]);
        ours.expect("ready");
        ours
    }

    pub(crate) fn data(&self) -> Connection {
        let server = must(redis::Client::open(format!("redis://127.0.0.1:{}/", self.data)));
        must(server.get_connection())
    }

    /// The number of additions so far.
    pub(crate) fn added(&self) -> usize {
        let value: Option<usize> = must(redis::cmd("GET").arg(COUNTER).query(&mut self.data()));
        value.unwrap_or(0)
    }
}

/// In a worker: obeys each line, as the program in Java does.
pub(crate) fn work(arguments: &[String]) {
    let [url, data] = arguments else { panic!("{arguments:?}") };
    let runtime = must(tokio::runtime::Builder::new_multi_thread().enable_all().build());
    runtime.block_on(async {
        let client = must(Client::connect(url).await);
        let mut held: Option<Guard> = None;
        let mut lines = worker::lines();
        worker::say("ready");
        while let Some(line) = lines.recv().await {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["acquire", kind, ttl] => {
                    let ttl = Duration::from_millis(must(ttl.parse()));
                    held = Some(must(lock(&client, kind).ttl(ttl).acquire().await));
                    worker::say("acquired");
                }
                ["token", _] => {
                    let guard = must(client.mutex(NAME).acquire().await);
                    worker::say(&guard.token().to_string());
                    held = Some(guard);
                }
                ["release"] => {
                    let let_go = match held.take() {
                        Some(held) => held.release().await.is_ok(),
                        None => false,
                    };
                    worker::say(if let_go { "released" } else { "refused" });
                }
                ["held"] => {
                    let is_held = held.as_ref().is_some_and(Guard::is_held);
                    worker::say(if is_held { "held" } else { "lost" });
                }
                ["add", kind, counter, rounds, tasks] => {
                    let work = || add(lock(&client, kind).ttl(LONG), data, counter, rounds);
                    join_all((0..must(tasks.parse::<u32>())).map(|_| work())).await;
                    worker::say("added");
                }
                ["look", counter, rounds, tasks] => {
                    let work = || look(lock(&client, "read").ttl(LONG), data, counter, rounds);
                    join_all((0..must(tasks.parse::<u32>())).map(|_| work())).await;
                    worker::say("looked");
                }
                _ => panic!("{line:?}"),
            }
        }
    });
}

fn lock(client: &Client, kind: &str) -> Lock {
    match kind {
        "lock" | "fenced" => client.mutex(NAME),
        "read" => client.rwlock(NAME).read(),
        "write" => client.rwlock(NAME).write(),
        _ => panic!("{kind:?}"),
    }
}

fn protected(port: &str) -> Connection {
    let server = must(redis::Client::open(format!("redis://127.0.0.1:{port}/")));
    must(server.get_connection())
}

/// Reads and writes, protected only by the lock.
async fn add(lock: Lock, port: &str, counter: &str, rounds: &str) {
    let mut data = protected(port);
    for _ in 0..must(rounds.parse::<usize>()) {
        let held = must(lock.acquire().await);
        worker::add(&mut data, counter);
        must(held.release().await);
    }
}

/// Reads twice under the read lock: nobody writes in between.
async fn look(lock: Lock, port: &str, counter: &str, rounds: &str) {
    let (mut data, inside) = (protected(port), format!("{counter}:inside"));
    for _ in 0..must(rounds.parse::<usize>()) {
        let held = must(lock.acquire().await);
        let before: Option<u64> = must(redis::cmd("GET").arg(counter).query(&mut data));
        let writers: Option<u64> = must(redis::cmd("GET").arg(&inside).query(&mut data));
        assert_eq!(writers.unwrap_or(0), 0, "somebody writes beside a reader");
        let after: Option<u64> = must(redis::cmd("GET").arg(counter).query(&mut data));
        assert_eq!(before, after, "it was written");
        must(held.release().await);
    }
}
