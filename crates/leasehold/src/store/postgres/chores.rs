//! The work that a store does now and then by itself: it closes idle sessions, and removes the rows
//! of names that are free.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Shared;

/// The interval at which the store looks for idle sessions: 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long a session may be idle before it is closed: 30 s.
const REST: Duration = Duration::from_secs(30);

/// The interval at which a store in use removes the rows of names that are free: 30 s.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Does the chores until the store has gone.
pub(crate) async fn work(store: Weak<Shared>) {
    let mut swept = Instant::now();
    loop {
        sleep(LOOK_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        if swept.elapsed() >= SWEEP_EVERY && store.is_used.swap(false, Ordering::Relaxed) {
            // A failure here comes again in the next operation, which reports it.
            while let Ok(rows) = store.sessions.query("SELECT leasehold.sweep_4()", &[]).await
                && rows.first().is_some_and(|row| row.get(0))
            {}
            swept = Instant::now();
        }
        store.sessions.close(REST);
    }
}
