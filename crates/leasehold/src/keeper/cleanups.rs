//! What must still reach the store although nobody waits for it: releases and cancels.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::model::NOT_AFTER;
use leasehold_core::{Action, BoxFuture, LockName, StoreError};

use super::jobs::Done;
use super::life::Keeper;
use super::table::Cleanup;

/// First and longest delay before a cleanup is tried again.
const CLEANUP_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl Keeper {
    /// Sees to it that `action` reaches the store, for as long as it matters.
    pub(crate) fn clean(self: &Arc<Self>, name: LockName, action: Action, ttl: Duration) {
        self.add_cleanup(name, action, ttl, None);
    }

    pub(super) fn add_cleanup(
        self: &Arc<Self>,
        name: LockName,
        action: Action,
        ttl: Duration,
        notice: Option<String>,
    ) {
        let until = self.store.now() + ttl.max(NOT_AFTER);
        let was_running = {
            let mut table = self.table();
            table.add_cleanup(Cleanup { name, action, until, notice });
            std::mem::replace(&mut table.running, true)
        };
        self.wake.notify_one();
        if !was_running {
            // Without a thread there is nobody to do it; the lease then ends by its deadline.
            let _ = self.start();
        }
    }

    /// Tries until it is done or does not matter any more.
    pub(super) fn cleanup(self: &Arc<Self>, cleanup: Cleanup) -> BoxFuture<'static, Done> {
        let keeper = Arc::clone(self);
        let (first, longest) = CLEANUP_BACKOFF;
        let (mut backoff, mut jitter) =
            (Backoff::new(first, longest), Jitter::new(self.table().seed()));
        Box::pin(async move {
            let Cleanup { name, action, until, notice } = cleanup;
            loop {
                let error = match keeper.store.apply(&name, action.clone()).await {
                    Ok(_) => {
                        keeper.publish(&name, notice).await;
                        return Done::Cleaned(Ok(()));
                    }
                    Err(error) => error,
                };
                let again = keeper.store.now() + backoff.next_delay(&mut jitter);
                if again >= until || !error.kind().is_transient() {
                    return Done::Cleaned(Err(error));
                }
                keeper.store.clock.sleep_until(again).await;
            }
        })
    }

    pub(super) fn cleaned(&self, result: Result<(), StoreError>) {
        {
            let mut table = self.table();
            table.unfinished -= 1;
            if let Err(error) = result {
                table.given_up = Some(error);
            }
        }
        self.cleaned.notify_waiters();
        self.settled.notify_all();
    }
}
