//! A queue: all append to it, and the holder of its lock processes the entries.

use std::sync::Arc;
use std::time::Duration;

use super::Player;
use crate::plan::QUEUE;
use crate::promise::{Watch, now_ns};

/// How long an entry takes.
const WORK: Duration = Duration::from_millis(5);

impl Player {
    /// Appends an entry, or processes some. The holder does not ask its guard before it ends an
    /// entry: the queue must detect that the holder was overtaken.
    pub(super) async fn use_queue(&mut self) {
        let Some(entries) = self.parts.entries.clone() else { return };
        if self.random.chance(75) {
            self.doing.begin("appends an entry");
            return entries.append_one().await;
        }
        let lock = self.client().mutex(QUEUE).ttl(self.random.one_of(&self.plan.ttls));
        self.doing.begin(format!("acquires {QUEUE}"));
        let asked = now_ns();
        let Some(guard) = self.take(&lock, Some(QUEUE)).await else { return };
        let log = Arc::clone(&self.log);
        let mut watch = Watch::granted(&log, self.own, asked, &guard);
        self.doing.begin(format!("does the entries of {QUEUE}"));
        for id in entries.take(&guard).await {
            let span = self.random.up_to(WORK);
            self.linger(&guard, &mut watch, span).await;
            if !entries.finish(&guard, &id).await {
                break;
            }
        }
        watch.ask(&guard);
        self.doing.begin(format!("releases {QUEUE}"));
        drop(guard.release().await);
    }
}
