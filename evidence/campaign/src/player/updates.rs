//! Values that are read, and written some milliseconds later: on a separate server, or in a cell on
//! the servers of the locks.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Guard;
use leasehold_data::Cell;

use super::Player;
use crate::data::{Asked, TRIES, ask};
use crate::plan::{CELLS, Plan, REGISTERS};
use crate::promise::{Watch, now_ns};

/// The longest time between reading a value and writing another.
const THOUGHT: Duration = Duration::from_millis(10);

impl Player {
    /// Reads and writes a protected value. A holder that has lost the lock in between notices that
    /// because the write is refused.
    pub(super) async fn update(&mut self) {
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
            let span = self.random.up_to(THOUGHT);
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

    /// The same with a cell, which installs the token of the client that opens it.
    pub(super) async fn update_cell(&mut self) {
        let number = self.random.below(CELLS);
        let Some(cell) = self.parts.cells.get(number).cloned() else { return };
        let name = Plan::cell(number);
        let lock = self.client().mutex(&name).ttl(self.random.one_of(&self.plan.ttls));
        self.doing.begin(format!("acquires {name}, to update it"));
        let asked = now_ns();
        let Some(guard) = self.take(&lock, Some(&name)).await else { return };
        self.doing.begin(format!("updates {name}"));
        let log = Arc::clone(&self.log);
        let mut watch = Watch::granted(&log, self.own, asked, &guard);
        let value = log.fresh(self.own);
        log.invoked(&name, value, guard.token().get());
        self.change(&cell, &guard, &mut watch, value).await;
        watch.ask(&guard);
        self.doing.begin(format!("releases {name}"));
        drop(guard.release().await);
    }

    /// Replaces the value of a cell. A write with an unknown result stays open.
    async fn change(&mut self, cell: &Cell, guard: &Guard, watch: &mut Watch<'_>, value: u64) {
        let log = Arc::clone(&self.log);
        let opened = match ask(&log, "updates", TRIES, || cell.open(guard)).await {
            Asked::Answered(opened) => opened,
            Asked::Refused | Asked::Open => return log.refused(value),
        };
        let old = String::from_utf8_lossy(opened.value()).parse().unwrap_or(0);
        let span = self.random.up_to(THOUGHT);
        self.linger(guard, watch, span).await;
        match ask(&log, "updates", TRIES, || opened.write(value.to_string())).await {
            Asked::Answered(_) => {
                log.event("cell");
                log.returned(value, old);
            }
            Asked::Refused => log.refused(value),
            Asked::Open => {}
        }
    }
}
