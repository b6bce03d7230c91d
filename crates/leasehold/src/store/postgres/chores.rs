//! The work that a store does now and then by itself: it closes idle sessions, and removes the rows
//! of names that are free.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connection::Sessions;

/// The interval at which the store looks for idle sessions: 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long a session may be idle before it is closed: 30 s.
const REST: Duration = Duration::from_secs(30);

/// The interval at which a store in use removes the rows of names that are free: 30 s.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// What the chores of a store need, for as long as it lives.
pub(crate) struct Upkeep {
    pub(crate) sessions: Sessions,
    /// Whether the store was used since the last chores.
    pub(crate) is_used: AtomicBool,
}

/// Does the chores until the store has gone.
pub(crate) async fn work(upkeep: Weak<Upkeep>) {
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
