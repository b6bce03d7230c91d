//! The work that a store does now and then by itself: it closes idle sessions, and removes the rows
//! of names that are free.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::StoreError;
use tokio::time::{Instant, sleep};

use super::connection::Sessions;
use crate::background;
use crate::clock::SystemClock;

/// The interval at which the store looks for idle sessions: 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long a session may be idle before it is closed: 30 s.
const REST: Duration = Duration::from_secs(30);

/// The interval at which a store in use removes the rows of names that are free: 30 s.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// The chores of one store, for as long as it lives.
pub(crate) struct Upkeep {
    sessions: Sessions,
    /// Whether the store was used since the last chores.
    is_used: AtomicBool,
}

impl Upkeep {
    pub(crate) fn new(sessions: Sessions) -> Self {
        Self { sessions, is_used: AtomicBool::new(false) }
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
            while let Ok(rows) = upkeep.sessions.query("SELECT leasehold.sweep_4()", &[]).await
                && rows.first().is_some_and(|row| row.get(0))
            {}
            swept = Instant::now();
        }
        upkeep.sessions.close(REST);
    }
}
