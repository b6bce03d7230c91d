//! One turn of a task: it takes a lock in some way, does something under it, and releases it in
//! some way, or dies.

mod elections;
mod jobs;
mod leases;
mod locks;
mod updates;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, Guard, Lock};
use tokio::time::{sleep, timeout};

use crate::data::Parts;
use crate::doing::Doing;
use crate::plan::Plan;
use crate::promise::{Log, Watch, now_ns};
use crate::random::Random;
use crate::register::Register;

/// How often a holder asks its guard.
const ASK_EVERY: Duration = Duration::from_millis(4);

/// After an error, the task pauses for less than this.
const REST: Duration = Duration::from_millis(50);

/// One task.
pub(crate) struct Player {
    pub(crate) plan: Plan,
    /// All clients of the process, and the index of the task's own client.
    pub(crate) clients: Arc<[Client]>,
    pub(crate) own: usize,
    pub(crate) log: Arc<Log>,
    pub(crate) register: Register,
    /// The directory of leases that no process has, one in each file.
    pub(crate) handed_out: PathBuf,
    pub(crate) random: Random,
    pub(crate) doing: Doing,
    pub(crate) parts: Parts,
}

/// A guard and the lineage of its lease.
type Adopted = (Guard, u64);

impl Player {
    /// Takes turns until it is told to stop. Then it must be served once more.
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
            choice if choice < self.plan.updates => return self.update().await,
            10..13 if self.plan.elections > 0 => return self.elect().await,
            13..15 if self.plan.keeps => return self.watch_queue().await,
            15..18 => {
                if let Some(shop) = &self.parts.shop {
                    self.doing.begin("trades");
                    return shop.trade(&mut self.random).await;
                }
            }
            18..20 if self.plan.jobs > 0 => return self.run_job().await,
            20..22 if !self.plan.numbers.is_empty() => {
                self.doing.begin("draws a number");
                return self.parts.numbers.draw(&mut self.random).await;
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

    /// Requests the lock in one of several ways; if a wait for one name is given up, that is
    /// recorded.
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

    /// Asks the guard sometimes.
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

    /// Counts an expected error, and stops the test at any other.
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
            other => panic!("{other:?}"),
        };
        self.log.event(&kind);
        sleep(REST).await;
    }
}
