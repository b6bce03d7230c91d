//! The work that a store does now and then by itself: it closes idle sessions, and removes what
//! dead holders have left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::StoreError;
use tokio::time::{Instant, sleep};

use super::connection::{REST, Sessions};
use super::schema::Statements;
use crate::background;
use crate::clock::SystemClock;

/// The interval at which the store looks for idle sessions: 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The interval at which a store in use removes what dead holders have left: one minute.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// The chores of one store, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Upkeep {
    sessions: Sessions,
    statements: Statements,
    /// Whether the store was used since the last chores.
    is_used: AtomicBool,
}

impl Upkeep {
    pub(crate) fn new(sessions: Sessions, statements: Statements) -> Self {
        Self { sessions, statements, is_used: AtomicBool::new(false) }
    }

    /// Starts the chores.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<(), StoreError> {
        background::spawn(&SystemClock::new(), Box::pin(work(Arc::downgrade(self))))
    }

    /// Records that the store was used.
    pub(crate) fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }
}

async fn work(upkeep: Weak<Upkeep>) {
    let mut swept = Instant::now();
    loop {
        sleep(LOOK_EVERY).await;
        let Some(upkeep) = upkeep.upgrade() else { return };
        if swept.elapsed() >= SWEEP_EVERY && upkeep.is_used.swap(false, Ordering::Relaxed) {
            // A failure here comes again in the next operation, which reports it.
            let _ = upkeep.sessions.query(&upkeep.statements.sweep, &[]).await;
            swept = Instant::now();
        }
        upkeep.sessions.close(REST);
    }
}
