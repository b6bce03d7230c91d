//! Cleanups: releases and cancels that must still reach the store although nobody waits for them.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::model::NOT_AFTER;
use leasehold_core::{Action, BoxFuture, LockName, StoreError, StoreErrorKind};

use super::endings::Cleanup;
use super::lease::Attempt;
use super::replies::may_pass;
use super::state::{Keeper, PendingRelease, Waiter};

/// The first and the longest delay before a cleanup is tried again.
const CLEANUP_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl PendingRelease {
    /// Sends the cleanup, once.
    pub(crate) async fn send(mut self) {
        let Some(cleanup) = self.cleanup.as_deref() else { return };
        if self.keeper.store.apply(&cleanup.name, cleanup.action.clone()).await.is_ok()
            && let Some(cleanup) = self.cleanup.take()
        {
            let Cleanup { name, notice, .. } = *cleanup;
            self.keeper.cleaned(Ok(()));
            self.keeper.publish(&name, notice).await;
        }
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        if let Some(cleanup) = self.cleanup.take() {
            self.keeper.table().cleanups.push(*cleanup);
            self.keeper.wake.notify_one();
        }
    }
}

impl Keeper {
    /// Sees to it that `action` reaches the store, for as long as it matters.
    pub(crate) fn clean(self: &Arc<Self>, name: LockName, action: Action, ttl: Duration) {
        let until = self.store.now() + ttl.max(NOT_AFTER);
        let was_running = {
            let mut table = self.table();
            table.unfinished += 1;
            table.cleanups.push(Cleanup { name, action, until, notice: None });
            std::mem::replace(&mut table.running, true)
        };
        self.wake.notify_one();
        if !was_running {
            // Without a thread nobody sends the cleanup; the lease then ends by its deadline.
            let _ = self.start();
        }
    }

    /// Sees to it that the store has no place for a waiter that was taken from the table.
    pub(super) fn cancel(self: &Arc<Self>, waiter: &Waiter) {
        let Attempt { name, id, options, unanswered, .. } = &waiter.attempt;
        let cancel = Action::Cancel { id: *id, unanswered: *unanswered };
        self.clean(name.clone(), cancel, options.ttl);
    }

    /// Tries the cleanup until it is done or does not matter any more.
    pub(super) fn cleanup(self: &Arc<Self>, cleanup: Cleanup) -> BoxFuture<'static, ()> {
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
                        return keeper.cleaned(Ok(()));
                    }
                    Err(error) => error,
                };
                let again = keeper.store.now() + backoff.next_delay(&mut jitter);
                if again >= until || !keeper.is_worth_trying_again(error.kind()) {
                    return keeper.cleaned(Err(error));
                }
                keeper.store.clock.sleep_until(again).await;
            }
        })
    }

    /// Rights may be given back, which nobody who closes waits for.
    fn is_worth_trying_again(&self, kind: StoreErrorKind) -> bool {
        if self.is_closed() { kind.is_transient() } else { may_pass(kind) }
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
