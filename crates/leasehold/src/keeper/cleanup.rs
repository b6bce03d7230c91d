//! Cleanup: the ends of holds and of waits that must still reach the store although nobody waits
//! for them.
//!
//! After a failover to a replica that missed the last writes, the store still has the places of
//! waiters that those writes served. Their client lives, so the store would grant each of them in
//! turn, and wait for the claim window each time. So the client ends such a grant as soon as a
//! message announces it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Backoff;
use leasehold_core::{
    Action, BoxFuture, End, FencingToken, Instant, LockName, StoreError, StoreErrorKind,
};

use super::Keeper;
use super::lease::Attempt;
use crate::replies::may_pass;

/// The first and the longest delay before a cleanup is tried again.
const CLEANUP_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The shortest time for which a cleanup is tried again: 10 s, although the lease may have ended.
/// Until then, a place in a queue may still stand.
pub(super) const CLEANUP_LIFE: Duration = Duration::from_secs(10);

/// The number of ended attempts that are remembered: 1024, because a store may still know that many
/// waiters of one client.
const REMEMBERED: usize = 1024;

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

impl Cleanup {
    /// Ends an attempt, which the store would give up by itself after the ttl. With `closes`, a
    /// copy of its requests may still arrive.
    pub(super) fn of(attempt: &Attempt, closes: bool, now: Instant, ttl: Duration) -> Self {
        let action = Action::End(End::new(attempt.request.clone()).with_closes(closes));
        let until = now + ttl.max(CLEANUP_LIFE);
        Self { name: attempt.name.clone(), action, until, notice: None }
    }
}

/// The attempts that were released last, of those that have waited, each with its token.
#[derive(Debug, Default)]
pub(super) struct RecentlyEnded(VecDeque<(Arc<Attempt>, FencingToken)>);

impl Keeper {
    /// Ends an attempt at the store, however often that must be tried, for as long as it matters.
    pub(crate) fn clean(self: &Arc<Self>, attempt: &Attempt, closes: bool, ttl: Duration) {
        let cleanup = Cleanup::of(attempt, closes, self.store.now(), ttl);
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

impl RecentlyEnded {
    pub(super) fn add(&mut self, attempt: &Arc<Attempt>, token: FencingToken) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((Arc::clone(attempt), token));
    }

    /// The ended attempt with this number, if it was granted again. A message that is only late
    /// does not count: it has the token of the ended lease, or a lower one if the holder became the
    /// writer after the message was sent.
    pub(super) fn granted_again(&self, number: u64, token: FencingToken) -> Option<Arc<Attempt>> {
        let (ended, own) = self.0.iter().rev().find(|(ended, _)| ended.number() == number)?;
        (token > *own).then(|| Arc::clone(ended))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ClientId, HolderId, Mode, Request};

    use super::*;

    #[test]
    fn only_a_new_grant_of_an_attempt_that_has_ended_is_given_back() {
        let mut ended = RecentlyEnded::default();
        let asked = |attempt| {
            let id = HolderId { client: ClientId(1), attempt };
            let request = Request::new(id, Mode::Exclusive, Arc::default());
            Attempt::new("a".parse().unwrap(), request, Arc::default(), None, false)
        };
        let token = |number| FencingToken::from_number(number).unwrap();
        let [first, own, other] = [1, 2, 3].map(token);
        assert!(ended.granted_again(1, other).is_none());
        ended.add(&asked(1), own);
        let is_again = |token| ended.granted_again(1, token).is_some();
        assert_eq!([first, own, other].map(is_again), [false, false, true], "late, or new");
        for attempt in 0..REMEMBERED as u64 {
            ended.add(&asked(2 + attempt), own);
        }
        assert!(ended.granted_again(1, other).is_none(), "forgotten in the end");
    }
}
