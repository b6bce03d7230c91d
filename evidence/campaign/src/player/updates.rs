//! Values that are read, and written some milliseconds later.

use std::sync::Arc;

use super::Player;
use crate::plan::{Plan, REGISTERS};
use crate::promise::{Watch, now_ns};
use crate::register::Written;

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
        let (mut written, old) = (Written::No, self.register.read(&name, token).await);
        if old.is_some() {
            let span = self.random.up_to(self.register.thought());
            self.linger(&guard, &mut watch, span).await;
            written = self.register.write(&name, token, value).await;
        }
        watch.ask(&guard);
        match (written, old) {
            (Written::Yes, Some(old)) => log.returned(value, old),
            // No caller of this client may have the lease before the transaction has ended.
            (Written::Perhaps, _) => return drop(guard.into_lease()),
            (written, _) => {
                log.refused(value);
                if written == Written::Overtaken {
                    log.event("overtaken");
                }
            }
        }
        self.doing.begin(format!("releases {name}"));
        drop(guard.release().await);
    }
}
