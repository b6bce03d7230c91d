//! One turn of a task: it takes something in some way, does something with it, and lets go in some
//! way, or dies.

use std::future::Future;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::lease::{Lease, Mode, Renewal};
use leasehold::{Client, Error, Guard, Lock};
use leasehold_testkit::must;
use tokio::time::{sleep, timeout};

use crate::doing::Doing;
use crate::plan::{Modes, PERMITS, Plan, REGISTERS};
use crate::promise::{Log, Watch, now_ns};
use crate::random::Random;
use crate::register::Register;
use crate::shop::Shop;

/// How often a holder asks its guard.
const ASK_EVERY: Duration = Duration::from_millis(4);

/// After an error the store is left alone for less than this.
const REST: Duration = Duration::from_millis(50);

/// One task.
pub(crate) struct Player {
    pub(crate) plan: Plan,
    /// All clients of the process, and which of them is its own.
    pub(crate) clients: Arc<[Client]>,
    pub(crate) own: usize,
    pub(crate) log: Arc<Log>,
    pub(crate) register: Register,
    /// Where leases lie that nobody has at the moment, one in each file.
    pub(crate) handed_out: PathBuf,
    pub(crate) random: Random,
    pub(crate) doing: Doing,
    pub(crate) shop: Option<Shop>,
}

/// A guard and the lineage of its lease.
type Adopted = (Guard, u64);

impl Player {
    /// Takes turns until it is told to stop, and then is served once more.
    pub(crate) async fn play(mut self, is_over: Arc<AtomicBool>) {
        while !is_over.load(Ordering::Relaxed) {
            self.take_turn().await;
        }
        let name = Plan::name(self.random.below(self.plan.names));
        let lock = self.client().mutex(&name).ttl(self.plan.longest_ttl());
        loop {
            self.doing.begin(format!("acquires {name} for the last time"));
            let asked = now_ns();
            match lock.acquire().await {
                Ok(guard) => {
                    drop(Watch::granted(&self.log, self.own, asked, &guard));
                    return self.doing.end();
                }
                Err(error) => self.note(&error).await,
            }
        }
    }

    fn client(&self) -> &Client {
        &self.clients[self.own]
    }

    async fn take_turn(&mut self) {
        match self.random.below(100) {
            0..10 => return self.update().await,
            10..13 if self.plan.elections > 0 => return self.elect().await,
            13..15 if self.plan.keeps => return self.watch_queue().await,
            15..18 => {
                if let Some(shop) = &self.shop {
                    self.doing.begin("trades");
                    return shop.trade(&mut self.random).await;
                }
            }
            _ => {}
        }
        let mut next = if self.random.chance(4) { self.find_lease().await } else { None };
        if next.is_none() {
            let (lock, what) = self.draw_lock();
            self.doing.begin(format!("acquires {what}"));
            let asked = now_ns();
            if let Some(guard) = self.take(&lock, None).await {
                let log = Arc::clone(&self.log);
                let watch = Watch::granted(&log, self.own, asked, &guard);
                next = self.hold(guard, watch).await;
            }
        }
        while let Some((guard, lineage)) = next {
            let log = Arc::clone(&self.log);
            let watch = Watch::adopted(&log, self.own, lineage, &guard);
            next = self.hold(guard, watch).await;
        }
    }

    /// Leads for a while, or asks who does.
    async fn elect(&mut self) {
        let name = Plan::election(self.random.below(self.plan.elections));
        let election = self.client().election(&name).ttl(self.random.one_of(&self.plan.ttls));
        let asked = now_ns();
        if self.plan.keeps && self.random.chance(40) {
            self.doing.begin(format!("asks who leads {name}"));
            return match election.leader().await {
                Ok(Some(leader)) => self.log.leads(&name, leader.token.get(), asked),
                Ok(None) => self.log.event("nobody-leads"),
                Err(error) => self.note(&error).await,
            };
        }
        self.doing.begin(format!("campaigns for {name}"));
        let patience = self.random.up_to(self.plan.longest_ttl() * 2);
        let leadership = match timeout(patience, election.campaign("one of many")).await {
            Err(_) => return self.log.event("dropped"),
            Ok(Err(error)) => return self.note(&error).await,
            Ok(Ok(leadership)) => leadership,
        };
        let log = Arc::clone(&self.log);
        let mut watch = Watch::granted(&log, self.own, asked, leadership.guard());
        self.doing.begin(format!("leads {name}"));
        let span = self.random.up_to(Duration::from_millis(30));
        self.linger(leadership.guard(), &mut watch, span).await;
        if self.random.chance(30)
            && let Err(error) = leadership.proclaim("more to say").await
        {
            self.note(&error).await;
        }
        watch.ask(leadership.guard());
        match self.random.chance(30) {
            true => drop(leadership),
            false => drop(leadership.resign().await),
        }
    }

    /// Writes down who waits for a name, in the order of its queue.
    async fn watch_queue(&mut self) {
        let name = match self.random.chance(50) {
            true => Plan::name(self.random.below(self.plan.names / 4)),
            false => Plan::election(self.random.below(self.plan.elections)),
        };
        self.doing.begin(format!("inspects {name}"));
        let asked = now_ns();
        match self.client().admin().inspect(&name).await {
            Ok(status) if status.waiters.len() > 1 => {
                let since = |waited: Duration| {
                    asked.saturating_sub(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX))
                };
                let waiters = status.waiters.iter();
                let waiting: Vec<_> =
                    waiters.map(|waiter| (waiter.id, since(waiter.waited))).collect();
                self.log.queue(&name, &waiting);
            }
            Ok(_) => {}
            Err(error) => self.note(&error).await,
        }
    }

    /// A lock, and what it is.
    fn draw_lock(&mut self) -> (Lock, String) {
        let ttl = self.random.one_of(&self.plan.ttls);
        let name = Plan::name(self.random.below(self.plan.names));
        let kinds = match (self.plan.modes, self.plan.semaphores) {
            (Modes::Mutexes, _) => 36,
            (Modes::Fixed, _) => 70,
            (Modes::All, 0) => 80,
            (Modes::All, _) => 100,
        };
        let kind = self.random.below(kinds);
        let (lock, what) = match kind {
            0..30 => (self.client().mutex(&name), format!("mutex {name}")),
            30..36 => {
                let count = 2 + self.random.below(2);
                let names = (0..count).map(|_| Plan::name(self.random.below(self.plan.names)));
                let names: Vec<_> = names.collect();
                let lock = self.client().multi(&names);
                match self.random.chance(70) {
                    true => (lock, format!("all of {names:?}")),
                    false => (lock.release_while_waiting(), format!("at once all of {names:?}")),
                }
            }
            36..45 => (self.client().rwlock(&name).write(), format!("writer {name}")),
            45..80 => {
                let crowded = Plan::name(self.random.below(self.plan.names / 4));
                let lock = self.client().rwlock(&crowded);
                match kind < 70 {
                    true => (lock.read(), format!("reader {crowded}")),
                    false => (lock.upgradable_read(), format!("upgradable reader {crowded}")),
                }
            }
            _ => {
                let name = Plan::semaphore(self.random.below(self.plan.semaphores));
                let count = 1 + self.random.below(3) as u32;
                let lock = self.client().semaphore(&name, PERMITS).permits(count);
                (lock, format!("{count} permits {name}"))
            }
        };
        let renewal = if self.random.chance(70) { Renewal::Auto } else { Renewal::Off };
        let client = self.own;
        let what = format!("{what}, ttl {ttl:?}, renewal {renewal:?}, as client {client}");
        (lock.ttl(ttl).renewal(renewal), what)
    }

    /// Reads and writes what a lock protects. A holder that has lost it in between finds that out
    /// by being refused.
    async fn update(&mut self) {
        let name = Plan::register(self.random.below(REGISTERS));
        let lock = self.client().mutex(&name).ttl(self.random.one_of(&self.plan.ttls));
        self.doing.begin(format!("acquires {name}, to update it"));
        let asked = now_ns();
        let Some(guard) = self.take(&lock, Some(&name)).await else { return };
        self.doing.begin(format!("updates {name}"));
        let log = Arc::clone(&self.log);
        let mut watch = Watch::granted(&log, self.own, asked, &guard);
        let (value, token) = (log.fresh(self.own), guard.token().get());
        log.invoked(&name, value, token);
        let mut written = None;
        if let Some(old) = self.register.read(&name, token).await {
            let span = self.random.up_to(Duration::from_millis(10));
            self.linger(&guard, &mut watch, span).await;
            let is_written = self.register.write(&name, token, value).await;
            written = is_written.then_some(old);
        }
        match written {
            Some(old) => log.returned(value, old),
            None => log.refused(value),
        }
        watch.ask(&guard);
        self.doing.begin(format!("releases {name}"));
        drop(guard.release().await);
    }

    /// Asks for it in one of the ways there are; a wait for one name that is given up is written
    /// down.
    async fn take(&mut self, lock: &Lock, name: Option<&str>) -> Option<Guard> {
        let asked = now_ns();
        let taken = self.ask_for(lock).await;
        if let (None, Some(name)) = (&taken, name) {
            self.log.gave_up(name, asked);
        }
        taken
    }

    async fn ask_for(&mut self, lock: &Lock) -> Option<Guard> {
        let taken = match self.random.below(10) {
            0 | 1 => {
                let patience = self.random.up_to(Duration::from_millis(30));
                timeout(patience, lock.acquire()).await.ok().map(|taken| taken.map(Some))
            }
            2 | 3 => Some(lock.try_acquire().await),
            4 | 5 => {
                let patience = self.random.up_to(self.plan.longest_ttl() * 2);
                Some(lock.acquire_within(patience).await.map(Some))
            }
            _ => Some(lock.acquire().await.map(Some)),
        };
        match taken {
            None => {
                self.log.event("dropped");
                None
            }
            Some(Ok(taken)) => taken,
            Some(Err(error)) => {
                self.note(&error).await;
                None
            }
        }
    }

    /// Has it for a while; gives the guard of who has adopted it.
    async fn hold(&mut self, mut guard: Guard, mut watch: Watch<'_>) -> Option<Adopted> {
        let span = match self.random.chance(self.plan.lingering) {
            true => self.plan.longest,
            false => self.random.one_of(&[Duration::ZERO, Duration::from_millis(5)]),
        };
        let (before, after) = (self.random.up_to(span), self.random.up_to(span));
        self.doing.begin(format!("holds {}", guard.name()));
        self.linger(&guard, &mut watch, before).await;
        let is_single = guard.tokens().len() == 1;
        let may_change = self.plan.modes == Modes::All;
        match guard.mode() {
            Mode::Shared | Mode::Upgradable if may_change && self.random.chance(50) => {
                self.upgrade(&mut guard, &mut watch).await;
            }
            Mode::Upgradable if self.random.chance(20) => {
                self.change_a_writer(&mut guard, &mut watch).await;
            }
            Mode::Exclusive if is_single && may_change && self.random.chance(25) => {
                self.change_a_writer(&mut guard, &mut watch).await;
            }
            _ => {
                if self.random.chance(10) {
                    drop(guard.renew().await);
                    drop(guard.reenter());
                }
            }
        }
        self.linger(&guard, &mut watch, after).await;
        watch.ask(&guard);
        self.doing.begin(format!("lets go of {}", guard.name()));
        match self.random.below(100) {
            0..8 if is_single => return self.hand_out(guard, watch).await,
            0..20 => drop(guard),
            20..30 => {
                let patience = self.random.up_to(Duration::from_millis(2));
                drop(timeout(patience, guard.release()).await);
            }
            _ => drop(guard.release().await),
        }
        None
    }

    /// Asks the guard now and then.
    async fn linger(&self, guard: &Guard, watch: &mut Watch<'_>, span: Duration) {
        let end = now_ns() + u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        while watch.ask(guard) {
            let left = Duration::from_nanos(end.saturating_sub(now_ns()));
            if left.is_zero() {
                return;
            }
            sleep(left.min(ASK_EVERY)).await;
        }
    }

    /// A reader tries to become the writer, gives up soon and tries again.
    async fn upgrade(&mut self, guard: &mut Guard, watch: &mut Watch<'_>) {
        for _ in 0..1 + self.random.below(6) {
            let patience = self.patience();
            let was_upgradable = guard.mode() == Mode::Upgradable;
            let upgrade = async {
                let upgraded = guard.upgrade().await;
                let is_stuck = matches!(upgraded, Err(Error::WouldDeadlock { .. }));
                assert!(!was_upgradable || !is_stuck, "an upgradable reader only waits");
                upgraded
            };
            let changed = self.changing("upgrade", patience, upgrade).await;
            if !watch.ask(guard) || changed == Some(false) {
                return;
            }
            if changed == Some(true) {
                let span = self.random.up_to(Duration::from_millis(20));
                self.linger(guard, watch, span).await;
                if self.random.chance(50) {
                    self.change_a_writer(guard, watch).await;
                }
                return;
            }
        }
    }

    /// A writer becomes a reader, or asks for what it is.
    async fn change_a_writer(&mut self, guard: &mut Guard, watch: &mut Watch<'_>) {
        let patience = self.patience();
        if self.random.chance(60) {
            self.changing("downgrade", patience, guard.downgrade()).await;
        } else {
            self.changing("upgrade-writer", patience, guard.upgrade()).await;
        }
        let span = self.random.up_to(Duration::from_millis(20));
        self.linger(guard, watch, span).await;
    }

    /// How long a change of mode is waited for.
    fn patience(&mut self) -> Duration {
        let longest = self.random.one_of(&[0, 1, 2, 4, 10, 60]);
        self.random.up_to(Duration::from_millis(longest))
    }

    /// Whether it was changed; none if it was given up.
    async fn changing(
        &self,
        verb: &str,
        patience: Duration,
        change: impl Future<Output = Result<(), Error>>,
    ) -> Option<bool> {
        let changed = timeout(patience, change).await.ok();
        match &changed {
            None => self.log.event(&format!("{verb}-given-up")),
            Some(Ok(())) => self.log.event(verb),
            Some(Err(error)) => self.note(error).await,
        }
        changed.map(|changed| changed.is_ok())
    }

    /// Gives the lease out as a value, and lets another client have it, or nobody.
    async fn hand_out(&mut self, guard: Guard, mut watch: Watch<'_>) -> Option<Adopted> {
        let (number, lineage) = (watch.guard(), watch.lineage());
        watch.ask(&guard);
        drop(watch);
        let lease = guard.into_lease().ok()?;
        let others = [0, 1].map(|_| self.random.below(self.clients.len()));
        match self.random.below(10) {
            0..5 => {
                let adopted = self.clients[others[0]].adopt(lease).await;
                self.adopted(adopted, number).await.map(|guard| (guard, lineage))
            }
            5 => {
                // What is delivered twice is worth as much as once.
                let [one, two] = others.map(|other| self.clients[other].adopt(lease.clone()));
                let (one, two) = futures_util::future::join(one, two).await;
                let one = self.adopted(one, number).await;
                let two = self.adopted(two, number).await;
                one.xor(two).map(|guard| (guard, lineage))
            }
            6..9 => {
                let text = format!("{number} {lineage} {lease}");
                let path = self.handed_out.join(number.to_string());
                must(std::fs::write(path.with_extension("new"), text));
                must(std::fs::rename(path.with_extension("new"), path.with_extension("lease")));
                None
            }
            _ => None,
        }
    }

    async fn adopted(&self, adopted: Result<Guard, Error>, number: u64) -> Option<Guard> {
        match adopted {
            Ok(guard) => {
                self.log.adopted(number);
                Some(guard)
            }
            Err(error) => {
                self.note(&error).await;
                None
            }
        }
    }

    /// Adopts a lease that lies about, of this process or another.
    async fn find_lease(&mut self) -> Option<Adopted> {
        let found = must(std::fs::read_dir(&self.handed_out)).find_map(|entry| {
            let path = must(entry).path();
            let is_whole = path.extension().is_some_and(|end| end == "lease");
            // The process that renames it has it.
            let taken = path.with_extension("taken");
            (is_whole && std::fs::rename(path, &taken).is_ok()).then_some(taken)
        })?;
        let text = must(std::fs::read_to_string(&found));
        must(std::fs::remove_file(found));
        let mut words = text.splitn(3, ' ');
        let number = must(words.next()?.parse());
        let lineage = must(words.next()?.parse());
        let lease = must(Lease::from_str(words.next()?));
        self.doing.begin(format!("adopts {}", lease.name));
        let adopted = self.client().adopt(lease).await;
        self.adopted(adopted, number).await.map(|guard| (guard, lineage))
    }

    /// Counts an error that may come, and stops the test at one that must not.
    async fn note(&self, error: &Error) {
        let kind = match error {
            Error::Invalid(_) | Error::Closed | Error::Fenced { .. } => panic!("{error:?}"),
            Error::Indeterminate { .. } => "error-indeterminate".to_owned(),
            Error::Store(error) if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }) => {
                "error-no-quorum".to_owned()
            }
            Error::Store(error) => format!("error-{:?}", error.kind()),
            Error::Lost { .. } => return self.log.event("lost"),
            Error::NotAdopted { .. } => return self.log.event("not-adopted"),
            Error::Timeout { .. } => return self.log.event("timeout"),
            Error::WouldDeadlock { .. } => return self.log.event("would-deadlock"),
            other => panic!("{other:?}"),
        };
        self.log.event(&kind);
        sleep(REST).await;
    }
}
