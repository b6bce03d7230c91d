//! Values on a separate server that are read, and written some milliseconds later.

use std::sync::Arc;
use std::time::Duration;

use super::Player;
use crate::plan::{Plan, REGISTERS};
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
}
