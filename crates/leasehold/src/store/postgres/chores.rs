//! The work that a store does now and then by itself: it closes idle sessions, and removes the rows
//! of names that are free.

use std::mem;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::Shared;

/// The interval of the chores: 20 s. A session that has been idle for longer is closed.
const EVERY: Duration = Duration::from_secs(20);

/// Does the chores until the store has gone.
pub(crate) async fn work(store: Weak<Shared>) {
    let mut was_used = false;
    loop {
        sleep(EVERY).await;
        let Some(store) = store.upgrade() else { return };
        // What was released a moment ago is removed by the next round, whatever happens meanwhile.
        let is_used = store.is_used.swap(false, Ordering::Relaxed);
        let mut has_rows = mem::replace(&mut was_used, is_used) || is_used;
        // A failure here comes again in the next operation, which reports it.
        while has_rows
            && let Ok(taken) = store.sessions.take().await
            && let Ok(()) = taken.batch(&store.sessions.boot.begin).await
            && let Ok(rows) = taken.plain("SELECT leasehold.sweep_4()", &[]).await
            && let Ok(()) = taken.batch("COMMIT").await
        {
            taken.give_back();
            has_rows = rows.iter().any(|row| row.get(0));
        }
        store.sessions.close(EVERY);
    }
}
