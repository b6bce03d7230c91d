//! Cleanup: the ends of holds and of waits that must still reach the store although nobody waits
//! for them.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Backoff;
use leasehold_core::renewal::Renewing;
use leasehold_core::{Action, BoxFuture, End, Instant, LockName, StoreError, StoreErrorKind};

use super::Keeper;
use super::lease::{Attempt, LeaseState};
use crate::replies::may_pass;

/// The first and the longest delay before a cleanup is tried again.
const CLEANUP_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The shortest time for which a cleanup is tried again: 10 s, although the lease may have ended.
/// Until then, a place in a queue may still stand.
pub(super) const CLEANUP_LIFE: Duration = Duration::from_secs(10);

/// An action that must still reach the store although nobody waits for it.
#[derive(Clone, Debug)]
pub(super) struct Cleanup {
    pub(super) name: LockName,
    pub(super) action: Action,
    /// From this instant on, the action is no longer needed: the lease or the place has ended by
    /// itself.
    pub(super) until: Instant,
    /// The notice that is published under the name, once the action is done.
    pub(super) notice: Option<String>,
}

/// A lease that was dropped and not passed on.
#[derive(Debug)]
pub(super) struct LetGo {
    pub(super) state: Arc<LeaseState>,
    pub(super) renewing: Renewing,
    /// Its release.
    pub(super) cleanup: Cleanup,
}

impl Cleanup {
    /// Ends an attempt, which the store would give up by itself after the ttl. With `closes`, a
    /// copy of its requests may still arrive.
    pub(super) fn of(attempt: &Attempt, closes: bool, now: Instant) -> Self {
        let action = Action::End(End::new(attempt.request.clone()).with_closes(closes));
        let until = now + attempt.options.ttl.max(CLEANUP_LIFE);
        Self { name: attempt.name.clone(), action, until, notice: None }
    }
}

impl Keeper {
    /// Ends an attempt at the store, however often that must be tried, for as long as it matters.
    pub(crate) fn clean(self: &Arc<Self>, attempt: &Attempt, closes: bool) {
        let cleanup = Cleanup::of(attempt, closes, self.store.now());
        {
            let mut table = self.table();
            table.unfinished += 1;
            table.cleanups.push(cleanup);
        }
        self.wake.notify_one();
        // If no thread can be started, nobody sends the cleanup: the lease ends by its deadline.
        let _ = self.ensure_running();
    }

    /// Tries the cleanup until it is done or does not matter any more.
    pub(super) fn cleanup(self: &Arc<Self>, cleanup: Cleanup) -> BoxFuture<'static, ()> {
        let keeper = Arc::clone(self);
        let mut backoff = Backoff::new(CLEANUP_BACKOFF, self.jitter());
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
                let again = keeper.store.now() + backoff.next_delay();
                if again >= until || !keeper.is_worth_trying_again(error.kind()) {
                    return keeper.cleaned(Err(error));
                }
                keeper.store.clock.sleep_until(again).await;
            }
        })
    }

    /// Whether a cleanup that failed may succeed later. A missing right may be given back, but a
    /// caller of `close` does not wait for that.
    fn is_worth_trying_again(&self, kind: StoreErrorKind) -> bool {
        if self.table().closed { kind.is_transient() } else { may_pass(kind) }
    }

    fn cleaned(&self, result: Result<(), StoreError>) {
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

    /// Publishes a notice. It is only a hint, because watchers of the name also ask the store.
    pub(super) async fn publish(&self, name: &LockName, notice: Option<String>) {
        if let Some(notice) = notice {
            let _ = self.store.inner.publish(name, &notice).await;
        }
    }
}
