//! A process of a run: clients, and tasks that take turns until they are told to stop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::admin::{Status, Waiter};
use leasehold::store::Memory;
use leasehold::{Client, LockName};
use leasehold_testkit::{SharedStore, must, worker};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::plan::{PREFIX, Plan};
use crate::promise::Log;
use crate::random::Random;
use crate::register::Register;
use crate::topology::Topology;
use crate::verbs::Player;

/// How long anything may take that must come to an end: generous, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does the job of a process: its arguments are the topology, the store's URL, the port of what is
/// protected, the directory for what it writes, its number and a seed.
pub(crate) fn work(arguments: &[String]) {
    let [topology, url, port, directory, number, seed] = arguments else { panic!("{arguments:?}") };
    let (plan, port) = (Topology::named(topology).plan(), must(port.parse()));
    let runtime = must(Builder::new_multi_thread().worker_threads(2).enable_all().build());
    let log = Arc::new(Log::create(Path::new(directory), must(number.parse())));
    runtime.block_on(async {
        let register = Register::connect(port).await;
        take_turns(plan, url, register, Path::new(directory), log, must(seed.parse())).await;
    });
}

async fn take_turns(
    plan: Plan,
    url: &str,
    register: Register,
    directory: &Path,
    log: Arc<Log>,
    seed: u64,
) {
    let clients = connect(url, plan.clients).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, listening) = (Arc::clone(&is_over), thread::spawn(worker::listen));
    let mut random = Random::new(seed);
    let mut tasks = JoinSet::new();
    for own in (0..plan.clients).flat_map(|client| (0..plan.tasks).map(move |_| client)) {
        let player = Player {
            plan,
            clients: Arc::clone(&clients),
            own,
            log: Arc::clone(&log),
            register: register.clone(),
            handed_out: directory.to_owned(),
            random: Random::new(random.seed()),
        };
        tasks.spawn(player.play(Arc::clone(&is_over)));
    }
    // Told to stop; the process ends here if nobody can tell it any more.
    must(tokio::task::spawn_blocking(|| listening.join()).await).unwrap();
    over.store(true, Ordering::Relaxed);
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            must(ended);
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        panic!("a task waits for ever; what is there: {:?}", what_is_left(&clients[0]).await);
    }
    worker::say(&format!("served {}", log.holds()));
    // Told that all processes have come so far.
    worker::listen();
    come_to_rest(&clients[0]).await;
    worker::say("at rest");
}

async fn connect(url: &str, count: usize) -> Arc<[Client]> {
    let memory = SharedStore::new(Memory::new());
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(match url {
            "memory:" => must(Client::builder().store(memory.clone()).build().await),
            _ => connect_at_last(url).await,
        });
    }
    clients.into()
}

/// The place may be in trouble right now.
async fn connect_at_last(url: &str) -> Client {
    let since = Instant::now();
    loop {
        match Client::connect(url).await {
            Ok(client) => return client,
            Err(error) => assert!(since.elapsed() < PATIENCE, "{error}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until nothing is held or awaited any more.
async fn come_to_rest(client: &Client) {
    let since = Instant::now();
    loop {
        let left = what_is_left(client).await;
        match &left {
            Ok(names) if names.is_empty() => return,
            Ok(_) | Err(_) => assert!(since.elapsed() < PATIENCE, "left behind: {left:?}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The names that somebody holds, or that this process still waits for. Those who were killed while
/// they waited are found out when somebody asks for that name, which nobody does any more.
async fn what_is_left(client: &Client) -> leasehold::Result<Vec<(LockName, Status)>> {
    let mut left = Vec::new();
    for name in client.admin().list(PREFIX, 100).await? {
        let status = client.admin().inspect(&name).await?;
        let is_own = |waiter: &Waiter| waiter.info.pid == std::process::id();
        if !status.holders.is_empty() || status.waiters.iter().any(is_own) {
            left.push((name, status));
        }
    }
    Ok(left)
}
