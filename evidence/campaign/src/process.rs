//! A process of a run: clients, and tasks that take turns until they are told to stop.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::admin::{Status, Waiter};
use leasehold::store::Memory;
use leasehold::{Client, LockName};
use leasehold_data::Data;
use leasehold_testkit::{SharedStore, must, worker};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::data::Parts;
use crate::doing::{Doing, Trace};
use crate::plan::PREFIX;
use crate::player::Player;
use crate::promise::{Log, now_ns};
use crate::random::Random;
use crate::register::Register;
use crate::stall::{self, Stalls};
use crate::topology::Topology;

/// How long an operation that must end may take, by a clock that stands still while the machine is
/// too busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same by any clock.
const LONGEST: Duration = Duration::from_mins(10);

/// How often that clock is read.
const STEP: Duration = Duration::from_secs(5);

/// The job of a process. Its arguments are the topology, the store's URL, the port of the protected
/// values, the directory for its records, its number and a seed.
pub(crate) fn work(arguments: &[String]) {
    let [topology, url, port, directory, number, seed] = arguments else { panic!("{arguments:?}") };
    let (topology, port) = (Topology::named(topology), must(port.parse()));
    let runtime = must(Builder::new_multi_thread().worker_threads(2).enable_all().build());
    let log = Arc::new(Log::create(Path::new(directory), must(number.parse())));
    stall::watch_this_process(Arc::clone(&log));
    runtime.block_on(async {
        let register = Register::of(topology, url, port).await;
        take_turns(topology, url, register, Path::new(directory), log, must(seed.parse())).await;
    });
}

async fn take_turns(
    topology: Topology,
    url: &str,
    register: Register,
    directory: &Path,
    log: Arc<Log>,
    seed: u64,
) {
    let plan = topology.plan();
    let traces: Vec<_> = (0..plan.clients).map(|_| Trace::default()).collect();
    let clients = connect(url, &traces, directory).await;
    let parts = match plan.sells || !plan.numbers.is_empty() {
        true => {
            let data = at_last(directory, || Data::connect(url)).await;
            Parts::new(&plan, &data, directory, &log)
        }
        false => Parts::default(),
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, listening) = (Arc::clone(&is_over), thread::spawn(worker::listen));
    let mut random = Random::new(seed);
    let (mut tasks, mut doings) = (JoinSet::new(), Vec::new());
    for own in (0..plan.clients).flat_map(|client| (0..plan.tasks).map(move |_| client)) {
        let doing = Doing::default();
        doings.push(doing.clone());
        let player = Player {
            plan,
            doing,
            parts: parts.clone(),
            clients: Arc::clone(&clients),
            own,
            log: Arc::clone(&log),
            register: register.clone(),
            handed_out: directory.to_owned(),
            random: Random::new(random.seed()),
        };
        tasks.spawn(player.play(Arc::clone(&is_over)));
    }
    // Waits for the order to stop; the process ends here if its parent has gone.
    must(tokio::task::spawn_blocking(|| listening.join()).await).unwrap();
    over.store(true, Ordering::Relaxed);
    let mut all = pin!(async {
        while let Some(ended) = tasks.join_next().await {
            must(ended);
        }
    });
    let patience = Patience::new(directory);
    while timeout(STEP, &mut all).await.is_err() {
        if patience.is_over() {
            let left = what_is_left(&clients[0]).await;
            let doings: Vec<_> = doings.iter().filter_map(Doing::now).collect();
            for (client, trace) in traces.iter().enumerate() {
                eprintln!("what client {client} has done lately: {:#?}", trace.lines());
            }
            panic!("{}: these tasks go on for ever: {doings:#?}; {left:#?}", patience.spent());
        }
    }
    worker::say(&format!("served {}", log.holds()));
    // All processes have come this far; one of them audits the data.
    if worker::listen() == TAKE_STOCK {
        parts.audit(directory).await;
    }
    come_to_rest(&clients[0], directory, topology.keeps_cancels()).await;
    worker::say("at rest");
}

/// The order that one of the processes gets when all turns are over.
pub(crate) const TAKE_STOCK: &str = "take stock";

/// How long an operation may take.
struct Patience<'a> {
    directory: &'a Path,
    since: Instant,
    since_ns: u64,
}

impl<'a> Patience<'a> {
    fn new(directory: &'a Path) -> Self {
        Self { directory, since: Instant::now(), since_ns: now_ns() }
    }

    fn is_over(&self) -> bool {
        let spent = self.since.elapsed();
        spent >= LONGEST || spent >= PATIENCE && self.running() >= PATIENCE
    }

    /// How much of the time was no fault of the machine.
    fn running(&self) -> Duration {
        Stalls::read(self.directory).running(self.since_ns, now_ns())
    }

    fn spent(&self) -> String {
        format!("after {:.0?}, {:.0?} of it not stalled", self.since.elapsed(), self.running())
    }
}

async fn connect(url: &str, traces: &[Trace], directory: &Path) -> Arc<[Client]> {
    let memory = SharedStore::new(Memory::new());
    let mut clients = Vec::new();
    for trace in traces {
        let builder = || Client::builder().observer(trace.clone());
        clients.push(match url {
            "memory:" => must(builder().store(memory.clone()).build().await),
            _ => at_last(directory, || builder().url(url).build()).await,
        });
    }
    clients.into()
}

/// The place may have trouble right now.
async fn at_last<T, F: Future<Output = leasehold::Result<T>>>(
    directory: &Path,
    connect: impl Fn() -> F,
) -> T {
    let patience = Patience::new(directory);
    loop {
        match connect().await {
            Ok(connected) => return connected,
            Err(error) => assert!(!patience.is_over(), "{}: {error}", patience.spent()),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until nothing is held or awaited any more. If the store has forgotten the cancel of a
/// waiter, the place is back, and is noticed as that of a killed waiter.
async fn come_to_rest(client: &Client, directory: &Path, keeps_cancels: bool) {
    let patience = Patience::new(directory);
    loop {
        let left = what_is_left(client).await;
        let is_left = |(_, status): &(_, Status)| keeps_cancels || !status.holders.is_empty();
        match &left {
            Ok(names) if !names.iter().any(is_left) => return,
            Ok(_) | Err(_) => {
                assert!(!patience.is_over(), "{}: left behind: {left:?}", patience.spent());
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The names that somebody holds, or that this process still waits for. A killed waiter is noticed
/// when somebody asks for its name, which nobody does at the end.
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
