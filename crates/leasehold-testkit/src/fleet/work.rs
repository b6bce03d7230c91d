//! The work of the clients of a fleet, and the faults that hit them.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold::time::{Clock as _, FakeClock, Instant};
use leasehold::{Client, LockName};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::names::Names;
use super::network::{Network, Weather, lock};
use super::report::{Failover, Report};
use super::store::FleetStore;
use super::time::run;

/// The names that one client uses.
const NAMES_EACH: usize = 3;

/// How often holders and waiters are counted.
const SAMPLE: Duration = Duration::from_secs(1);

/// How long clients may take to learn which server has taken over: 3 s. That is the longest pause
/// before a failed request is sent again, and some to spare.
const SEARCH: Duration = Duration::from_secs(3);

/// How long the fleet may take to come to rest after the last request: as long as the lease of a
/// killed holder and a queue of long holds.
const PATIENCE: Duration = Duration::from_mins(60);

/// A fleet, and the faults that hit it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many clients, each a separate process.
    pub clients: usize,
    /// How many servers.
    pub nodes: usize,
    /// How many names, of which each client uses three.
    pub names: usize,
    /// How long a lease lasts without a renewal.
    pub ttl: Duration,
    /// The longest pause of a client between two locks; the average is half of it.
    pub thinks: Duration,
    /// Four in five holds take at most this long.
    pub holds: Duration,
    /// Every fifth hold takes at most this long.
    pub holds_long: Duration,
    /// How long all clients work undisturbed, after a warm-up of the same length.
    pub calm: Duration,
    /// How long a server is away before its replica takes over.
    pub outage: Duration,
    /// How long all clients work after that, and after the restart.
    pub after: Duration,
    /// The behaviour of the network.
    pub weather: Weather,
    /// The seed, which decides everything.
    pub seed: u64,
}

struct Fleet {
    plan: Plan,
    network: Arc<Network>,
    clock: FakeClock,
    lock_names: Vec<LockName>,
    state: Mutex<State>,
    served: Notify,
}

struct State {
    names: Names,
    report: Report,
    asking: u64,
    holding: u64,
    is_over: bool,
    /// For each client, the name that it wants, and when it asked.
    wanted: Vec<Option<(usize, Instant)>>,
}

/// Plays a plan.
///
/// # Errors
///
/// If the runtime cannot be built.
pub fn play(plan: Plan) -> io::Result<Report> {
    let clock = FakeClock::new();
    let network = Network::new(clock.clone(), plan.nodes, plan.weather, plan.seed);
    let lock_name = |at| LockName::new(format!("fleet/{at}"));
    let lock_names = (0..plan.names).map(lock_name).collect::<Result<_, _>>();
    let state = State {
        names: Names::new(plan.names),
        report: Report::default(),
        asking: 0,
        holding: 0,
        is_over: false,
        wanted: vec![None; plan.clients],
    };
    let fleet = Arc::new(Fleet {
        plan,
        network,
        clock: clock.clone(),
        lock_names: lock_names.map_err(io::Error::other)?,
        state: Mutex::new(state),
        served: Notify::new(),
    });
    run(&clock, fleet.play())
}

/// A process of the fleet.
struct Member {
    store: FleetStore,
    working: JoinHandle<()>,
}

impl Fleet {
    async fn play(self: Arc<Self>) -> Report {
        let plan = self.plan;
        let mut members: Vec<_> =
            (0..plan.clients).map(|client| Some(self.start(client, plan.thinks))).collect();
        self.sleep(plan.calm).await;
        self.watch_calm().await;
        self.fail_over().await;
        self.sleep(plan.after).await;
        self.restart_a_tenth(&mut members).await;
        self.sleep(plan.after).await;
        lock(&self.state).is_over = true;
        self.comes_to_rest().await;
        let mut state = lock(&self.state);
        let mut report = std::mem::take(&mut state.report);
        let names = &mut state.names;
        report.hand_overs = std::mem::take(&mut names.hand_overs);
        report.hand_overs.sort_unstable();
        report.longest_idle = names.longest_idle;
        report.double_holds = names.double_holds;
        report.tokens_back = names.tokens_back;
        report.unserved = state.asking;
        report.seconds = [0, 1].map(|index| self.network.timeline(index).seconds());
        report.took = self.network.elapsed();
        report
    }

    async fn sleep(&self, span: Duration) {
        self.clock.sleep_until(self.clock.now() + span).await;
    }

    fn start(self: &Arc<Self>, client: usize, begins_within: Duration) -> Member {
        let store = FleetStore::new(&self.network);
        let fleet = Arc::clone(self);
        let working = tokio::spawn(fleet.work(client, store.clone(), begins_within));
        Member { store, working }
    }

    // ---- what clients do

    async fn work(self: Arc<Self>, client: usize, store: FleetStore, begins_within: Duration) {
        let builder = Client::builder().store(store).clock(self.clock.clone());
        let Ok(leasehold) = builder.build().await else { return };
        let own = [(); NAMES_EACH].map(|()| self.network.draw() as usize % self.plan.names);
        self.sleep(self.network.between(Duration::ZERO, begins_within)).await;
        while !lock(&self.state).is_over {
            let name = own[self.network.draw() as usize % own.len()];
            self.hold(client, &leasehold, name).await;
            let thinks = self.network.between(Duration::ZERO, self.plan.thinks);
            self.sleep(thinks).await;
        }
    }

    async fn hold(&self, client: usize, leasehold: &Client, name: usize) {
        let asked = self.clock.now();
        {
            let mut state = lock(&self.state);
            state.asking += 1;
            state.wanted[client] = Some((name, asked));
        }
        let wanted = leasehold.mutex(&self.lock_names[name]).ttl(self.plan.ttl);
        let acquired = wanted.acquire().await;
        let now = self.clock.now();
        {
            let mut state = lock(&self.state);
            state.asking -= 1;
            state.wanted[client] = None;
            let waited = now.saturating_since(asked);
            state.report.longest_wait = state.report.longest_wait.max(waited);
            match &acquired {
                Ok(guard) => {
                    state.report.entered += 1;
                    state.holding += 1;
                    state.names.enter(name, client, guard.token(), (asked, now));
                }
                Err(_) => state.report.errors += 1,
            }
            if state.asking == 0 {
                self.served.notify_waiters();
            }
        }
        let Ok(guard) = acquired else { return };
        let inside = Inside { fleet: self, name, client, releases: false };
        let longest = match self.network.draw().is_multiple_of(5) {
            true => self.plan.holds_long,
            false => self.plan.holds,
        };
        let work = self.sleep(self.network.between(Duration::ZERO, longest));
        let is_lost = matches!(select(guard.lost(), std::pin::pin!(work)).await, Either::Left(_));
        inside.leave(!is_lost);
        // If the release does not reach the server, the lease ends at its deadline.
        drop(guard.release().await);
    }

    // ---- what befalls them

    /// Counts the requests while no fault happens.
    async fn watch_calm(&self) {
        let before = (self.network.all_counts(), self.busy(), self.network.bus_messages());
        let begun = self.clock.now();
        let (mut holders, mut waiters, mut samples) = (0, 0, 0_u64);
        while self.clock.now().saturating_since(begun) < self.plan.calm {
            self.sleep(SAMPLE).await;
            let state = lock(&self.state);
            (holders, waiters) = (holders + state.holding, waiters + state.asking);
            samples += 1;
        }
        let lasted = self.clock.now().saturating_since(begun);
        let busy = self.busy();
        let shares = before.1.iter().zip(&busy).map(|(before, after)| *after - *before);
        let report = &mut lock(&self.state).report;
        report.calm = (self.network.all_counts().since(before.0), lasted);
        report.holders = holders as f64 / samples as f64;
        report.waiters = waiters as f64 / samples as f64;
        report.busiest = shares.max().unwrap_or_default().as_secs_f64() / lasted.as_secs_f64();
        report.bus_messages = self.network.bus_messages() - before.2;
    }

    fn busy(&self) -> Vec<Duration> {
        (0..self.network.len()).map(|index| self.network.busy(index)).collect()
    }

    /// Records that an event happens now.
    fn note(&self, event: &'static str) -> Duration {
        let now = self.network.elapsed();
        lock(&self.state).report.events.push((event, now));
        now
    }

    /// Ends the first server; after a while, a replica of it takes over.
    async fn fail_over(&self) {
        let network = &self.network;
        let failed_at = self.note("a server fails");
        network.fail(0);
        self.sleep(self.plan.outage).await;
        let taken_over = self.note("its replica takes over");
        let missed = network.promote(0).len() as u64;
        let now = self.clock.now();
        let clients = {
            let mut state = lock(&self.state);
            let here = |name: usize| network.route(&self.lock_names[name]) == 0;
            (0..self.plan.names).filter(|name| here(*name)).for_each(|name| {
                state.names.disturb(name, now, now + SEARCH);
            });
            let waiting = state.wanted.iter().flatten().filter(|(name, _)| here(*name)).count();
            let held = (0..self.plan.names).filter(|name| here(*name));
            (waiting + held.filter(|name| state.names.is_held(*name)).count()) as u64
        };
        self.sleep(self.plan.after).await;
        let timeline = network.timeline(0);
        let calm_from = failed_at.saturating_sub(self.plan.calm);
        let [commands_before, _] = timeline.peak_per_second(calm_from, failed_at);
        let [commands_after, _] = timeline.peak_per_second(taken_over, network.elapsed());
        let [_, dials] = timeline.peak_per_second(failed_at, network.elapsed());
        lock(&self.state).report.failover =
            Failover { clients, commands_before, commands_after, dials, missed };
    }

    /// Kills every tenth process, and starts another one within a second.
    async fn restart_a_tenth(self: &Arc<Self>, members: &mut [Option<Member>]) {
        self.note("a tenth of the clients is killed and starts again");
        for (client, member) in members.iter_mut().enumerate().step_by(10) {
            let Some(Member { store, working }) = member.take() else { continue };
            store.kill();
            working.abort();
            // Its leases end by their deadlines, and nobody waits for its requests any more.
            drop(working.await);
            {
                let mut state = lock(&self.state);
                if state.wanted[client].take().is_some() {
                    state.asking -= 1;
                }
            }
            *member = Some(self.start(client, Duration::from_secs(1)));
        }
    }

    /// Waits until every client that has asked was served.
    async fn comes_to_rest(&self) {
        let end = self.clock.now() + PATIENCE;
        while self.clock.now() < end && lock(&self.state).asking > 0 {
            let served = self.served.notified();
            let tick = self.sleep(SAMPLE);
            select(std::pin::pin!(served), std::pin::pin!(tick)).await;
        }
    }
}

/// A client that holds a lock, until it releases or is killed.
struct Inside<'a> {
    fleet: &'a Fleet,
    name: usize,
    client: usize,
    releases: bool,
}

impl Inside<'_> {
    fn leave(mut self, releases: bool) {
        self.releases = releases;
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let now = self.fleet.clock.now();
        let mut state = lock(&self.fleet.state);
        state.holding -= 1;
        state.names.leave(self.name, self.client, now, self.releases);
    }
}
