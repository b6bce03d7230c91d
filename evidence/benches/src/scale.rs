//! Ten thousand leases or waiters, or a thousand clients, in one process while nothing changes: the
//! cost of waiting, of holding, and of being there.

use std::time::{Duration, Instant};

use leasehold::{Client, Guard};
use leasehold_testkit::{RedisServer, Table};
use tokio::task::JoinSet;

use crate::measure::number;
use crate::outcome::Outcome;
use crate::process;
use crate::server::{self, Done, Work};

const MANY: usize = 10_000;

const CLIENTS: usize = 1_000;

/// How many are requested at the same time: few, so that requests take little memory.
const AT_ONCE: usize = 100;

/// How long nothing changes: with leases of 30 s, renewed every 10 s, each is renewed twice.
const IDLE: Duration = Duration::from_secs(20);

/// The time until the work of arriving has ended.
const SETTLE: Duration = Duration::from_secs(5);

/// Prints the cost of holding many names.
pub(crate) async fn run_held() -> Outcome {
    print("held names", &held().await?);
    Ok(())
}

pub(crate) async fn run_waiters() -> Outcome {
    print("waiters on one name", &waiters().await?);
    Ok(())
}

fn print(what: &str, cost: &Cost) {
    let heads = " | memory each, client | memory each, server | calls/s idle | server CPU idle | \
         client CPU idle";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new(&format!("Scale: {MANY} {what} in one process"), &heads);
    table.row(cost.cells(what));
    println!("{table}");
}

/// Prints the cost of clients that are not used.
pub(crate) async fn run_idle() -> Outcome {
    let heads =
        ["clients", "memory", "memory each", "connections", "calls/s idle", "client CPU idle"];
    let mut table = Table::new("Idle: clients of one server in one process, used once", &heads);
    let server = server::start()?;
    let connections = || server::field(&server.info("clients")?, "connected_clients");
    let (first, memory) = (connections()?, process::memory()?);
    let mut clients = Vec::new();
    for many in [1, CLIENTS] {
        while clients.len() < many {
            let client = Client::connect(server.url()).await?;
            client.mutex(format!("idle/{}", clients.len())).acquire().await?.release().await?;
            clients.push(client);
        }
        let idle = Idle::watch(&server).await?;
        let bytes = process::memory()?.saturating_sub(memory);
        table.row([
            many.to_string(),
            format!("{:.2} MiB", bytes as f64 / 1_048_576.0),
            format!("{:.1} KiB", bytes as f64 / 1024.0 / many as f64),
            number(connections()? - first),
            number(idle.done.scripts as f64 / idle.took.as_secs_f64()),
            idle.percent(idle.client_cpu),
        ]);
    }
    println!("{table}");
    Ok(())
}

struct Cost {
    /// The bytes of this process that the crowd took, and the server's bytes.
    client_bytes: u64,
    server_bytes: i64,
    idle: Idle,
}

async fn waiters() -> Outcome<Cost> {
    let server = server::start()?;
    let holder = Client::connect(server.url()).await?;
    // Without a slice, each waiter stands in the queue of the store.
    let client = Client::builder().url(server.url()).slice(Duration::ZERO).build().await?;
    let guard = holder.mutex("scale").acquire().await?;
    let (before, memory) = (Work::of(&server)?, process::memory()?);
    let mut waiting = JoinSet::new();
    for _ in 0..MANY {
        let lock = client.mutex("scale");
        waiting.spawn(async move { lock.acquire().await });
    }
    while holder.admin().inspect(&guard.name().clone()).await?.waiting < MANY as u32 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let client_bytes = process::memory()?.saturating_sub(memory);
    let server_bytes = Work::of(&server)?.since(before).grown;
    let cost = Cost { client_bytes, server_bytes, idle: Idle::watch(&server).await? };
    waiting.shutdown().await;
    guard.release().await?;
    client.close().await?;
    Ok(cost)
}

async fn held() -> Outcome<Cost> {
    let server = server::start()?;
    let client = Client::connect(server.url()).await?;
    client.mutex("first").acquire().await?.release().await?;
    let (before, memory) = (Work::of(&server)?, process::memory()?);
    let mut acquiring = JoinSet::new();
    let mut guards: Vec<Guard> = Vec::with_capacity(MANY);
    for at in 0..MANY {
        let lock = client.mutex(format!("scale/{at}"));
        acquiring.spawn(async move { lock.acquire().await });
        if acquiring.len() >= AT_ONCE
            && let Some(guard) = acquiring.join_next().await
        {
            guards.push(guard??);
        }
    }
    while let Some(guard) = acquiring.join_next().await {
        guards.push(guard??);
    }
    let client_bytes = process::memory()?.saturating_sub(memory);
    let server_bytes = Work::of(&server)?.since(before).grown;
    let idle = Idle::watch(&server).await?;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    if lost > 0 {
        return Err(format!("{lost} of {MANY} leases were lost while nothing happened").into());
    }
    drop(guards);
    client.close().await?;
    Ok(Cost { client_bytes, server_bytes, idle })
}

/// The work while nothing changes.
struct Idle {
    done: Done,
    client_cpu: Duration,
    took: Duration,
}

impl Idle {
    async fn watch(server: &RedisServer) -> Outcome<Self> {
        tokio::time::sleep(SETTLE).await;
        let me = std::process::id();
        let (before, cpu, begin) = (Work::of(server)?, process::cpu(me)?, Instant::now());
        tokio::time::sleep(IDLE).await;
        let (done, client_cpu) = (Work::of(server)?.since(before), process::cpu(me)? - cpu);
        Ok(Self { done, client_cpu, took: begin.elapsed() })
    }

    fn percent(&self, cpu: Duration) -> String {
        format!("{:.2} %", cpu.as_secs_f64() * 100.0 / self.took.as_secs_f64())
    }
}

impl Cost {
    fn cells(&self, what: &str) -> [String; 6] {
        let each = |bytes: f64| format!("{:.0} B", bytes / MANY as f64);
        [
            what.to_owned(),
            each(self.client_bytes as f64),
            each(self.server_bytes as f64),
            number(self.idle.done.scripts as f64 / self.idle.took.as_secs_f64()),
            self.idle.percent(self.idle.done.cpu),
            self.idle.percent(self.idle.client_cpu),
        ]
    }
}
