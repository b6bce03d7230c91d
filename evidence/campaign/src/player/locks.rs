//! Locks of all kinds: the choice of a lock, and the work under it.

use std::future::Future;
use std::time::Duration;

use leasehold::lease::{Mode, Renewal};
use leasehold::{Error, Guard, Lock};
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
                (self.client().multi(&names), format!("all of {names:?}"))
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

    /// Holds it for a while; returns the guard of the adopter, if there is one.
    pub(super) async fn hold(&mut self, mut guard: Guard, mut watch: Watch<'_>) -> Option<Adopted> {
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

    /// A writer becomes a reader, or asks for its own mode.
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

    /// How long a task waits for a change of mode.
    fn patience(&mut self) -> Duration {
        let longest = self.random.one_of(&[0, 1, 2, 4, 10, 60]);
        self.random.up_to(Duration::from_millis(longest))
    }

    /// Whether the mode was changed; `None` if the change was given up.
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
}
