//! Limits how often a server that refuses connections is dialled.
//!
//! Requests of several runtimes, and subscriptions, each open their own connections, and all of
//! them try again while a server is away. Together they dial it a few times a second, whatever the
//! number of waiting callers: all of them share the result of the next dial.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::StoreError;
use leasehold_core::backoff::Jitter;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::mutex::Mutex;

/// The shortest and the longest pause before an address is dialled again: at most four dials a
/// second. A request waits for the next dial, so the longest pause is well below the timeout of a
/// request.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_millis(320));

/// The addresses that could not be dialled.
#[derive(Debug)]
pub(crate) struct Paces<A>(Mutex<HashMap<A, Failing>>);

/// An address whose last dial failed.
#[derive(Debug)]
struct Failing {
    error: StoreError,
    failed: Instant,
    next: Instant,
    jitter: Jitter,
    /// Notified when a dial has ended.
    changed: Arc<Notify>,
}

impl<A> Default for Paces<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A: Clone + Eq + Hash> Paces<A> {
    /// Waits until a caller may dial this address, which it has wanted since `wanted`. It does not
    /// wait for a caller that has the turn but does not use it, because that caller's runtime may
    /// be blocked.
    ///
    /// # Errors
    ///
    /// The error of another dial that failed meanwhile.
    pub(crate) async fn turn(&self, wanted: Instant, address: &A) -> Result<(), StoreError> {
        loop {
            let (next, changed) = {
                let mut failing = self.0.lock();
                let Some(failing) = failing.get_mut(address) else { return Ok(()) };
                if let Some(turn) = failing.turn(wanted, Instant::now()) {
                    return turn;
                }
                (failing.next, Arc::clone(&failing.changed).notified_owned())
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Records the result of a dial.
    pub(crate) fn dialled<T>(&self, address: &A, outcome: &Result<T, StoreError>) {
        let mut failing = self.0.lock();
        let Err(error) = outcome else {
            if let Some(failing) = failing.remove(address) {
                failing.changed.notify_waiters();
            }
            return;
        };
        let now = Instant::now();
        let failing =
            failing.entry(address.clone()).or_insert_with(|| Failing::new(error.clone(), now));
        (failing.error, failing.failed) = (error.clone(), now);
        failing.changed.notify_waiters();
    }
}

impl Failing {
    fn new(error: StoreError, now: Instant) -> Self {
        let mut jitter = Jitter::new(RandomState::new().hash_one(()));
        let next = now + jitter.between(PAUSE.0, PAUSE.1);
        Self { error, failed: now, next, jitter, changed: Arc::default() }
    }

    /// The answer, at `now`, to a caller that has wanted to dial since `wanted`: it dials, or
    /// another caller has dialled and failed. `None` if the caller has to wait.
    fn turn(&mut self, wanted: Instant, now: Instant) -> Option<Result<(), StoreError>> {
        if self.failed > wanted {
            return Some(Err(self.error.clone()));
        }
        if now < self.next {
            return None;
        }
        self.next = now + self.jitter.between(PAUSE.0, PAUSE.1);
        Some(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::StoreErrorKind;

    use super::*;

    fn refused() -> StoreError {
        StoreError::new(StoreErrorKind::Unreachable, "nothing listens there")
    }

    #[test]
    fn an_address_where_nothing_is_is_dialled_four_times_in_a_second_however_many_want_to() {
        let began = Instant::now();
        let mut failing = Failing::new(refused(), began);
        let mut dials = vec![began];
        for ms in 1..60_000 {
            let now = began + Duration::from_millis(ms);
            for _ in 0..100 {
                if let Some(Ok(())) = failing.turn(now, now) {
                    dials.push(now);
                    failing.failed = now;
                }
            }
        }
        let second = Duration::from_secs(1);
        for first in &dials {
            let within = dials.iter().filter(|at| (*first..*first + second).contains(at)).count();
            assert!(within <= 4, "{within} dials in a second");
        }
        assert!(dials.len() > 100, "{} dials in a minute", dials.len());
    }

    #[test]
    fn who_waits_for_a_turn_takes_what_another_dial_came_to_as_its_own() {
        let began = Instant::now();
        let mut failing = Failing::new(refused(), began);
        let wanted = began + Duration::from_millis(10);
        assert!(failing.turn(wanted, wanted).is_none());
        let next = began + Duration::from_secs(1);
        assert!(matches!(failing.turn(next, next), Some(Ok(()))));
        assert!(failing.turn(wanted, next).is_none());
        failing.failed = next;
        assert!(matches!(failing.turn(wanted, next), Some(Err(_))));
    }

    #[tokio::test]
    async fn once_a_dial_has_worked_everybody_dials() {
        let paces = Paces::default();
        paces.dialled::<()>(&"host", &Err(refused()));
        let waiting = std::pin::pin!(paces.turn(Instant::now(), &"host"));
        let back = async { paces.dialled(&"host", &Ok(())) };
        let (turn, ()) = futures_util::future::join(waiting, back).await;
        turn.unwrap();
        assert!(paces.0.lock().is_empty());
    }
}
