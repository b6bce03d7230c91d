//! The work that a store does now and then by itself: it closes idle sessions, and removes names
//! whose retention is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::StoreError;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;

use super::connection::{REST, Sessions};
use super::schema::Statements;
use crate::background;
use crate::clock::SystemClock;

/// The interval at which the store looks for idle sessions: 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The interval at which a store in use removes names: one minute, half the retention.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// The number of names that one transaction checks: 200, which takes a few milliseconds.
const AT_MOST: i64 = 200;

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

    /// Walks over all names once.
    async fn tidy(&self) -> Result<(), StoreError> {
        let mut next = Some(String::new());
        while let Some(beyond) = next {
            let mut taken = self.sessions.take(self.sessions.give_up()).await?;
            taken.batch(&self.statements.begin).await?;
            let values = [(&beyond as _, Type::TEXT), (&AT_MOST as _, Type::INT8)];
            let rows = taken.query(&self.statements.tidy, &values).await?;
            taken.batch("COMMIT").await?;
            taken.give_back();
            next = rows.first().and_then(|row| row.get(0));
        }
        Ok(())
    }
}

async fn work(upkeep: Weak<Upkeep>) {
    let mut tidied = Instant::now();
    loop {
        sleep(LOOK_EVERY).await;
        let Some(upkeep) = upkeep.upgrade() else { return };
        if tidied.elapsed() >= TIDY_EVERY && upkeep.is_used.swap(false, Ordering::Relaxed) {
            // A failure here comes again in the next operation, which reports it.
            let _ = upkeep.tidy().await;
            tidied = Instant::now();
        }
        upkeep.sessions.close(REST);
    }
}
