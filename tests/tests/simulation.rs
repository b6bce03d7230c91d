//! Clients, their keepers and their store on one clock that the simulation moves, with faults in
//! between that a seed decides. Then the faults end, and everything must come to rest.
//!
//! `LEASEHOLD_SEED=N` plays one seed again; `LEASEHOLD_SEEDS=N` plays N of them.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use leasehold::admin::{ClientId, HolderId};
use leasehold::lease::Mode;
use leasehold::store::{Memory, Store};
use leasehold::time::{Clock, FakeClock};
use leasehold::{Client, Guard, Lock, LockName};
use leasehold_core::Operation;
use leasehold_core::backoff::Jitter;
use leasehold_core::model::Times;
use leasehold_testkit::history::{Call, History, Hold, Outcome};
use leasehold_testkit::{Faults, Faulty, Subject, must};

/// Seeds played in every run, of each mode: some seconds.
const SEEDS: u64 = 6;

const CLIENTS: usize = 6;
const ROUNDS: usize = 10;
const TTL: Duration = Duration::from_secs(2);

/// The longest time that the lock may be idle with a waiter. A grant that its waiter never learned
/// of ends by its ttl. Then clients that gave up must be found dead.
const PATIENCE: Duration = Duration::from_secs(12);

/// The same without faults: no timer of a waiter is longer than a second.
const CALM_PATIENCE: Duration = Duration::from_secs(1);

/// The limit of a simulation: an hour of simulated time.
const LIMIT: Duration = Duration::from_secs(3600);

struct Simulation {
    memory: Memory,
    subject: Subject,
    clock: FakeClock,
    name: LockName,
    mode: Mode,
    history: RefCell<History>,
    /// Whether waiters are sometimes not polled.
    is_distracted: Cell<bool>,
}

impl Simulation {
    fn new(mode: Mode) -> Self {
        let clock = FakeClock::new();
        let memory = Memory::with_clock(clock.clone());
        let subject = Subject::fake(memory.clone(), clock.clone());
        let name = subject.fresh_name("simulation");
        let is_distracted = Cell::new(true);
        Self { memory, subject, clock, name, mode, history: RefCell::default(), is_distracted }
    }

    fn now(&self) -> Duration {
        self.clock.now().since_origin()
    }

    async fn sleep(&self, span: Duration) {
        self.clock.sleep_until(self.clock.now() + span).await;
    }

    fn lock(&self, client: &Client, mode: Mode) -> Lock {
        let lock = match (self.mode, mode) {
            (Mode::Permits { count, capacity }, _) => {
                client.semaphore(&self.name, capacity).permits(count)
            }
            (Mode::Exclusive, _) => client.mutex(&self.name),
            (_, Mode::Exclusive) => client.rwlock(&self.name).write(),
            (_, _) => client.rwlock(&self.name).read(),
        };
        lock.ttl(TTL)
    }

    /// The mode of the next request: any mode that a read/write lock has.
    fn draw_mode(&self, random: &mut Jitter) -> Mode {
        match self.mode {
            Mode::Shared if random.next_u64().is_multiple_of(3) => Mode::Exclusive,
            mode => mode,
        }
    }

    /// A client that again and again acquires, works and releases, or hands its lease on, or
    /// changes its mind.
    async fn work(&self, client: &Client, next: &Client, seed: u64) {
        let mut random = Jitter::new(seed);
        for round in 0..ROUNDS {
            let mode = self.draw_mode(&mut random);
            let lock = self.lock(client, mode);
            let asked = self.now();
            let patience = match random.next_u64() % 4 {
                0 => random.between(Duration::ZERO, Duration::from_secs(2)),
                _ => LIMIT,
            };
            let acquired = {
                let acquire = std::pin::pin!(self.distracted(lock.acquire(), &mut random));
                match select(acquire, self.clock.sleep_until(self.clock.now() + patience)).await {
                    Either::Left((Ok(guard), _)) => Some(guard),
                    Either::Left((Err(error), _)) => {
                        self.history.borrow_mut().errors.push(error);
                        continue;
                    }
                    Either::Right(_) => None,
                }
            };
            let Some(guard) = acquired else {
                let at = self.now();
                let unknown = ClientId(u128::from(seed) << 32 | round as u128);
                let id = HolderId { client: unknown, attempt: 1 };
                let outcome = Outcome::GaveUp { at };
                self.history.borrow_mut().calls.push(Call { id, mode, asked, outcome });
                continue;
            };
            let hold = self.hold(&guard, &mut random).await;
            let outcome = Outcome::Held(hold);
            self.history.borrow_mut().calls.push(Call { id: guard.holder(), mode, asked, outcome });
            match random.next_u64() % 3 {
                0 => drop(guard),
                1 => self.hand_on(guard, [client, next], &mut random).await,
                _ => {
                    let told = guard.release().await.err();
                    self.history.borrow_mut().errors.extend(told);
                }
            }
            self.sleep(random.between(Duration::ZERO, Duration::from_millis(300))).await;
        }
    }

    /// Polls a future, but not always: sometimes its caller does something else.
    async fn distracted<T>(&self, future: impl Future<Output = T>, random: &mut Jitter) -> T {
        let mut future = std::pin::pin!(future);
        if self.is_distracted.get() && random.next_u64().is_multiple_of(4) {
            let until = random.between(Duration::ZERO, Duration::from_millis(500));
            let until = std::pin::pin!(self.sleep(until));
            if let Either::Left((output, _)) = select(future.as_mut(), until).await {
                return output;
            }
            self.sleep(random.between(Duration::ZERO, Duration::from_secs(4))).await;
        }
        future.await
    }

    /// Works under a lease, for some steps.
    async fn hold(&self, guard: &Guard, random: &mut Jitter) -> Hold {
        let mut hold = Hold::begun(guard, self.now());
        let steps = random.next_u64() % 12;
        for _ in 0..steps {
            if guard.mode() == Mode::Exclusive {
                self.history.borrow_mut().accepted.push(guard.token());
            }
            let work = self.sleep(random.between(Duration::ZERO, Duration::from_millis(600)));
            let is_lost =
                matches!(select(guard.lost(), std::pin::pin!(work)).await, Either::Left(_));
            // A holder that is told works until that moment.
            hold.left = self.now();
            hold.was_told = is_lost;
            hold.valid_until = self.now() + guard.validity();
            if is_lost {
                break;
            }
        }
        hold
    }

    /// The lease of a guard is delivered to two clients, of which at most one adopts it.
    async fn hand_on(&self, guard: Guard, to: [&Client; 2], random: &mut Jitter) {
        let Ok(lease) = guard.into_lease() else { return };
        let (asked, mode) = (self.now(), lease.mode);
        let adopted = join_all(to.map(|client| client.adopt(lease.clone()))).await;
        assert!(adopted.iter().filter(|adopted| adopted.is_ok()).count() < 2, "{adopted:?}");
        for adopted in adopted {
            let guard = match adopted {
                Ok(guard) => guard,
                Err(error) => {
                    self.history.borrow_mut().errors.push(error);
                    continue;
                }
            };
            let mut hold = Hold::begun(&guard, self.now());
            assert!(hold.token > lease.token, "it fences the holder that handed it out");
            let work = self.sleep(random.between(Duration::ZERO, Duration::from_secs(3)));
            hold.was_told =
                matches!(select(guard.lost(), std::pin::pin!(work)).await, Either::Left(_));
            hold.left = self.now();
            hold.valid_until = self.now() + guard.validity();
            let (id, outcome) = (guard.holder(), Outcome::Held(hold));
            self.history.borrow_mut().calls.push(Call { id, mode, asked, outcome });
            let told = guard.release().await.err();
            self.history.borrow_mut().errors.extend(told);
        }
    }

    async fn everybody_works(&self, clients: &[Client], seed: u64) {
        let next = clients.iter().cycle().skip(1);
        let workers = (1..)
            .zip(clients.iter().zip(next))
            .map(|(number, (client, next))| self.work(client, next, seed << 8 | number));
        self.subject.drive_within(LIMIT, join_all(workers)).await;
    }

    async fn comes_to_rest(&self, client: &Client) {
        let end = self.clock.now() + TTL + Duration::from_secs(10);
        loop {
            let status = must(self.subject.drive(client.admin().inspect(&self.name)).await);
            if status.holders.is_empty() && status.waiting == 0 {
                return;
            }
            assert!(self.clock.now() < end, "something was left behind: {status:?}");
            self.subject.pass(Duration::from_millis(100)).await;
        }
    }

    /// What the store still knows after everything that it must remember has ended.
    async fn remains(&self) -> Vec<String> {
        self.subject.pass(Duration::from_millis(3 * Times::USUAL.closed_ms)).await;
        // The store forgets records while it does something else.
        let list = Operation::List { prefix: String::new(), after: None, keys: 10 };
        must(self.subject.store().execute(list).await);
        self.memory.record(&self.name).map(|_| self.name.to_string()).into_iter().collect()
    }
}

async fn play(seed: u64, mode: Mode, faults: Faults) {
    println!("seed {seed}, {mode:?}");
    let simulation = Simulation::new(mode);
    let (mut clients, mut networks) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let seed = seed << 8 | number as u64;
        // From no delay to a long one: a near client enters the moment a far one's lease ends.
        let faults = Faults { delay: faults.delay * number as u32, ..faults };
        let network =
            Faulty::new(simulation.subject.store(), simulation.clock.clone(), faults, seed);
        clients.push(simulation.subject.client_of(network.clone()).await);
        networks.push(network);
    }
    simulation.everybody_works(&clients, seed).await;
    simulation.history.take().check(PATIENCE);
    networks.iter().for_each(Faulty::heal);
    simulation.comes_to_rest(&clients[0]).await;
    simulation.is_distracted.set(false);
    simulation.everybody_works(&clients, seed + 1).await;
    simulation.comes_to_rest(&clients[0]).await;
    let remains = simulation.remains().await;
    History { remains, ..simulation.history.take() }.check(CALM_PATIENCE);
}

async fn play_all(mode: Mode) {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let seeds = match number("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LEASEHOLD_SEEDS").unwrap_or(SEEDS),
    };
    let faults = Faults {
        lose_request: 5,
        lose_answer: 5,
        lose_message: 20,
        cut: 2,
        cut_for: TTL * 2,
        delay: Duration::from_millis(60),
        timeout: Duration::from_millis(400),
    };
    for seed in seeds {
        play(seed, mode, faults).await;
    }
}

#[tokio::test]
async fn a_mutex_keeps_its_promises_while_the_network_does_not() {
    play_all(Mode::Exclusive).await;
}

#[tokio::test]
async fn a_read_write_lock_keeps_its_promises_while_the_network_does_not() {
    play_all(Mode::Shared).await;
}

#[tokio::test]
async fn a_semaphore_keeps_its_promises_while_the_network_does_not() {
    play_all(Mode::Permits { count: 2, capacity: 5 }).await;
}

/// Validity counts from before the request. Otherwise a holder with slow answers would believe in
/// its lease for longer than the store keeps it.
#[tokio::test]
async fn a_far_holder_that_is_cut_off_stops_before_a_near_waiter_enters() {
    for seed in 0..30 {
        let simulation = Simulation::new(Mode::Exclusive);
        let (subject, clock) = (&simulation.subject, simulation.clock.clone());
        let faults = Faults {
            delay: Duration::from_millis(400),
            timeout: Duration::from_millis(400),
            ..Faults::default()
        };
        let network = Faulty::new(subject.store(), clock, faults, seed);
        let (far, near) = (subject.client_of(network.clone()).await, subject.client().await);
        let guard = must(subject.drive(simulation.lock(&far, Mode::Exclusive).acquire()).await);
        network.cut(LIMIT);
        let waits = simulation.lock(&near, Mode::Exclusive);
        let entered = async {
            let _guard = must(waits.acquire().await);
            simulation.now()
        };
        let lost = async {
            guard.lost().await;
            simulation.now()
        };
        let (entered, lost) = subject.drive(join(entered, lost)).await;
        assert!(lost <= entered, "seed {seed}: lost at {lost:?}, entered at {entered:?}");
    }
}
