//! H3: clients that race for the votes of the same nodes, with and without faults between.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::Client;
use leasehold::lease::Mode;
use leasehold::time::{Clock, FakeClock};
use leasehold_core::backoff::Jitter;
use leasehold_testkit::history::{Call, History, Hold, Outcome};
use leasehold_testkit::{Faults, Faulty, SharedStore, Subject, must};

use crate::fleet::{memory_nodes, networked, subject};

const CLIENTS: u64 = 3;
const TTL: Duration = Duration::from_secs(2);

/// The limit of a simulation: ten minutes of simulated time.
const LIMIT: Duration = Duration::from_secs(600);

/// One lock, the clients that race for it, and their history.
struct Race {
    subject: Subject,
    clock: FakeClock,
    networks: Vec<Faulty>,
    clients: Vec<Client>,
    history: RefCell<History>,
    /// Whether clients are cut off from nodes.
    cuts: Cell<bool>,
}

impl Race {
    async fn new(nodes: usize, faults: Faults, seed: u64) -> Self {
        let clock = FakeClock::new();
        let subject = subject(&clock);
        let shared: Vec<_> =
            memory_nodes(nodes, &clock).into_iter().map(SharedStore::new).collect();
        let (networks, clients) = networked(CLIENTS, &shared, &clock, faults, seed).await;
        Self {
            subject,
            clock,
            networks,
            clients,
            history: RefCell::default(),
            cuts: Cell::new(false),
        }
    }

    fn now(&self) -> Duration {
        self.clock.now().since_origin()
    }

    async fn sleep(&self, span: Duration) {
        self.clock.sleep_until(self.clock.now() + span).await;
    }

    /// Acquires, works and releases, again and again.
    async fn work(&self, client: &Client, rounds: usize, longest: Duration, seed: u64) {
        let mut random = Jitter::new(seed);
        let lock = client.mutex("contended").ttl(TTL);
        for _ in 0..rounds {
            let asked = self.now();
            let guard = must(lock.acquire().await);
            let mut hold = Hold::begun(&guard, self.now());
            self.history.borrow_mut().accepted.push(guard.token());
            let work = self.sleep(random.between(Duration::ZERO, longest));
            hold.was_told = tokio::select! {
                _ = guard.lost() => true,
                () = work => false,
            };
            hold.left = self.now();
            hold.valid_until = self.now() + guard.validity();
            let (id, outcome) = (guard.holder(), Outcome::Held(hold));
            let call = Call { id, mode: Mode::Exclusive, asked, outcome };
            self.history.borrow_mut().calls.push(call);
            drop(guard.release().await);
        }
    }

    /// Cuts one client off from one node, again and again, until the faults end.
    async fn cut_now_and_then(&self, seed: u64) {
        let mut random = Jitter::new(seed);
        while self.cuts.get() {
            self.sleep(random.between(Duration::ZERO, TTL)).await;
            let network = random.next_u64() as usize % self.networks.len();
            self.networks[network].cut(random.between(Duration::ZERO, TTL * 2));
        }
        std::future::pending::<()>().await;
    }

    /// All clients race. Returns the average time of one round.
    async fn run(&self, rounds: usize, longest: Duration, seed: u64) -> Duration {
        let began = self.now();
        let workers = (1..)
            .zip(&self.clients)
            .map(|(number, client)| self.work(client, rounds, longest, seed << 8 | number));
        let racing = async {
            tokio::select! {
                _ = join_all(workers) => {}
                () = self.cut_now_and_then(seed) => {}
            }
        };
        self.subject.drive_within(LIMIT, racing).await;
        (self.now() - began) / (rounds as u32 * CLIENTS as u32)
    }
}

/// The network takes up to 3 ms each way, so that votes are split all the time.
#[tokio::test]
async fn h3_three_clients_that_race_for_five_nodes_get_on_and_never_hold_together() {
    for nodes in [3, 5] {
        let faults = Faults { delay: Duration::from_millis(3), ..Faults::default() };
        let race = Race::new(nodes, faults, nodes as u64).await;
        let took = race.run(150, Duration::from_millis(2), 1).await;
        // The lock is never idle with a waiter for longer than a poll takes.
        race.history.take().check(Duration::from_secs(2));
        assert!(took < Duration::from_millis(250), "{nodes} nodes: a turn takes {took:?}");
    }
}

/// Requests, answers and messages are lost or late, and clients are cut off from nodes.
#[tokio::test]
async fn a_quorum_keeps_its_promises_while_the_network_does_not() {
    let faults = Faults {
        lose_request: 4,
        lose_answer: 4,
        lose_message: 20,
        delay: Duration::from_millis(4),
        timeout: Duration::from_millis(400),
        ..Faults::default()
    };
    for seed in 0..4 {
        let race = Race::new(if seed % 2 == 0 { 3 } else { 5 }, faults, seed).await;
        race.cuts.set(true);
        race.run(20, Duration::from_millis(900), seed).await;
        race.cuts.set(false);
        race.history.take().check(Duration::from_secs(20));
        race.networks.iter().for_each(Faulty::heal);
        // By then, everything that was left behind has ended.
        race.subject.pass(Duration::from_secs(15)).await;
        race.run(20, Duration::from_millis(50), seed + 1).await;
        race.history.take().check(Duration::from_secs(2));
    }
}
