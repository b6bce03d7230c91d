//! What a store does now and then by itself: closes sessions that rest, removes names that are over.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::StoreError;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;

use super::connection::REST;
use super::{Postgres, Shared};
use crate::background;
use crate::clock::SystemClock;

/// How often it is looked whether a session rests: 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How often names are removed by a store that is used: each minute, half the usual retention.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Names that are passed in one transaction: 200, a few milliseconds.
const AT_MOST: i64 = 200;

/// The chores of one store.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// Whether anything was asked of the store since they were done.
    is_used: AtomicBool,
}

impl Chores {
    /// Has them done for as long as the store lives.
    pub(crate) fn begin(&self, store: &Postgres) -> Result<(), StoreError> {
        let shared = std::sync::Arc::downgrade(&store.shared);
        background::spawn(&SystemClock::new(), Box::pin(work(shared)))
    }

    /// Something was asked of the store.
    pub(crate) fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }
}

async fn work(shared: Weak<Shared>) {
    let mut tidied = Instant::now();
    loop {
        sleep(LOOK_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        if tidied.elapsed() >= TIDY_EVERY && shared.chores.is_used.swap(false, Ordering::Relaxed) {
            // What fails here fails again, with someone to tell, in the next operation.
            let _ = tidy(&shared).await;
            tidied = Instant::now();
        }
        shared.sessions.close(REST);
    }
}

/// Walks over all names once.
pub(super) async fn tidy(shared: &Shared) -> Result<(), StoreError> {
    let mut next = Some(String::new());
    while let Some(beyond) = next {
        let mut taken = shared.sessions.take(shared.sessions.give_up()).await?;
        taken.batch(&shared.statements.begin).await?;
        let values = [(&beyond as _, Type::TEXT), (&AT_MOST as _, Type::INT8)];
        let rows = taken.query(&shared.statements.tidy, &values).await?;
        taken.batch("COMMIT").await?;
        taken.give_back();
        next = rows.first().and_then(|row| row.get(0));
    }
    Ok(())
}
