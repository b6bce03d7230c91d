//! Locks of all kinds: the choice of a lock, and the work under it.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::{Guard, Lock};
use tokio::time::timeout;

use super::{Adopted, Player};
use crate::plan::{Modes, PERMITS, Plan};
use crate::promise::Watch;

impl Player {
    /// A lock, and its name.
    pub(super) fn draw_lock(&mut self) -> (Lock, String) {
        let ttl = self.random.one_of(&self.plan.ttls);
        let name = Plan::name(self.random.below(self.plan.names));
        let kinds = match (self.plan.modes, self.plan.semaphores) {
            (Modes::Mutexes, _) => 36,
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
                (self.client().multi(&names), format!("all of {names:?}"))
            }
            36..45 => (self.client().rwlock(&name).write(), format!("writer {name}")),
            45..80 => {
                let crowded = Plan::name(self.random.below(self.plan.names / 4));
                (self.client().rwlock(&crowded).read(), format!("reader {crowded}"))
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

    /// Holds it for a while; returns the guard of the adopter, if there is one.
    pub(super) async fn hold(&mut self, guard: Guard, mut watch: Watch<'_>) -> Option<Adopted> {
        let span = match self.random.chance(self.plan.lingering) {
            true => self.plan.longest,
            false => self.random.one_of(&[Duration::ZERO, Duration::from_millis(5)]),
        };
        let (before, after) = (self.random.up_to(span), self.random.up_to(span));
        self.doing.begin(format!("holds {}", guard.name()));
        self.linger(&guard, &mut watch, before).await;
        let is_single = guard.tokens().len() == 1;
        if self.random.chance(10) {
            drop(guard.renew().await);
            drop(guard.reenter());
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
}
