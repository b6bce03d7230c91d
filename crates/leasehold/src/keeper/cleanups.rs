//! Cleanups: releases and cancels that must still reach the store although nobody waits for them;
//! and ends of leases that a store may have forgotten.
//!
//! After a failover to a replica that missed the last writes, the store still has the places of
//! waiters that those writes served. Their client lives, so the store would grant each of them in
//! turn, and wait for the claim window each time. So the client gives such a grant back as soon as
//! a message announces it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{
    Action, BoxFuture, End, FencingToken, HolderId, Instant, LockName, Request, StoreError,
    StoreErrorKind,
};

use super::lease::Attempt;
use super::state::{Cleanup, Keeper, KeptForNext, PendingRelease, RecentlyEnded, Table, Waiter};
use crate::replies::may_pass;

/// The first and the longest delay before a cleanup is tried again.
const CLEANUP_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The time that a caller has for a release that it has taken on: 2 s, as long as the first caller
/// of a line may ask without a sign of life.
const RELEASE_PATIENCE: Duration = CLAIM_WINDOW;

/// The shortest time for which a cleanup is tried again: 10 s, although the lease may have ended.
/// Until then, a place in a queue may still stand.
pub(super) const CLEANUP_LIFE: Duration = Duration::from_secs(10);

/// The number of ended attempts that are remembered: 1024, because a store may still know that many
/// waiters of one client.
const REMEMBERED: usize = 1024;

impl PendingRelease {
    /// Sends the cleanup, once.
    pub(crate) async fn send(mut self) {
        let Some(cleanup) = self.cleanup.as_deref() else { return };
        if self.keeper.store.apply(&cleanup.name, cleanup.action.clone()).await.is_ok()
            && let Some(cleanup) = self.cleanup.take()
        {
            let is_own = {
                let mut table = self.keeper.table();
                let is_own = table.taken_on.remove(&self.key).is_some();
                table.unfinished -= usize::from(is_own);
                is_own
            };
            if is_own {
                let Cleanup { name, notice, .. } = *cleanup;
                self.keeper.tell_cleaned();
                self.keeper.publish(&name, notice).await;
            }
        }
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        if self.cleanup.is_some() {
            let mut table = self.keeper.table();
            let cleanup = table.taken_on.remove(&self.key);
            table.cleanups.extend(cleanup);
            self.keeper.wake.notify_one();
        }
    }
}

impl Table {
    /// The time at which the keeper sends the first release that a caller has taken on.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        self.taken_on.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out the releases that their callers have not done in time.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<Cleanup> {
        let mut overdue = Vec::new();
        while self.overdue_at().is_some_and(|at| at <= now) {
            overdue.extend(self.taken_on.pop_first().map(|(_, cleanup)| cleanup));
        }
        overdue
    }
}

impl Keeper {
    /// Leaves the release of a lease to a caller. The caller may not be polled, so the keeper sends
    /// the release, too, if it is not done in time. A second release changes nothing.
    pub(super) fn leave_release(
        self: &Arc<Self>,
        table: &mut Table,
        kept: KeptForNext,
        now: Instant,
    ) -> PendingRelease {
        let KeptForNext { state, cleanup, .. } = kept;
        let key = (now + RELEASE_PATIENCE, state.id);
        table.taken_on.insert(key, Cleanup::clone(&cleanup));
        self.wake_by(table, key.0);
        PendingRelease { keeper: Arc::clone(self), key, cleanup: Some(cleanup) }
    }

    /// Sends `action` to the store until it arrives, for as long as it matters.
    pub(crate) fn clean(self: &Arc<Self>, name: LockName, action: Action, ttl: Duration) {
        let until = self.store.now() + ttl.max(CLEANUP_LIFE);
        let was_running = {
            let mut table = self.table();
            table.unfinished += 1;
            table.cleanups.push(Cleanup { name, action, until, notice: None });
            std::mem::replace(&mut table.running, true)
        };
        self.wake.notify_one();
        if !was_running {
            // If no thread can be started, nobody sends the cleanup, and the lease ends by its
            // deadline.
            let _ = self.start();
        }
    }

    /// Cancels the place that a waiter has at the store. The waiter has been taken from the table.
    pub(super) fn cancel(self: &Arc<Self>, waiter: &Waiter) {
        let Attempt { name, request, options, unanswered, .. } = &waiter.attempt;
        let end = End::new(request.clone()).with_closes(*unanswered);
        self.clean(name.clone(), Action::End(end), options.ttl);
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

    /// Whether a cleanup that failed may succeed later. A missing right may be given back, but a
    /// caller of `close` does not wait for that.
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
        self.tell_cleaned();
    }

    fn tell_cleaned(&self) {
        self.cleaned.notify_waiters();
        self.settled.notify_all();
    }
}

impl RecentlyEnded {
    pub(super) fn add(&mut self, request: &Request, token: FencingToken, name: &LockName) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((request.clone(), token, name.clone()));
    }

    /// The name and the request of an ended attempt that was granted again. A message that is only late does not
    /// count: it has the token of the ended lease, or a lower one if the holder became the writer
    /// after the message was sent.
    pub(super) fn granted_again(
        &self,
        id: HolderId,
        token: FencingToken,
    ) -> Option<(LockName, Request)> {
        let (request, own, name) = self.0.iter().rev().find(|(ended, ..)| ended.id == id)?;
        (token > *own).then(|| (name.clone(), request.clone()))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ClientId, HolderInfo, Mode};

    use super::*;

    fn id(attempt: u64) -> HolderId {
        HolderId { client: ClientId(1), attempt }
    }

    #[test]
    fn only_a_new_grant_of_an_attempt_that_has_ended_is_given_back() {
        let (mut ended, name) = (RecentlyEnded::default(), LockName::new("a").unwrap());
        let asked = |attempt| Request::new(id(attempt), Mode::Exclusive, HolderInfo::default());
        let [first, own, other] =
            [1, 2, 3].map(|number| FencingToken::from_number(number).unwrap());
        assert_eq!(ended.granted_again(id(1), other), None);
        ended.add(&asked(1), own, &name);
        assert_eq!(ended.granted_again(id(1), own), None, "its own, late");
        assert_eq!(ended.granted_again(id(1), first), None, "an older one, late");
        assert_eq!(ended.granted_again(id(1), other), Some((name.clone(), asked(1))));
        for attempt in 0..REMEMBERED as u64 {
            ended.add(&asked(2 + attempt), own, &name);
        }
        assert_eq!(ended.granted_again(id(1), other), None, "forgotten in the end");
    }
}
