//! Limits how often a server that refuses connections is dialled.
//!
//! Requests of several runtimes, and subscriptions, each open their own connections, and all of
//! them try again while a server is away. Together they dial it a few times a second, whatever the
//! number of waiting callers: all of them share the result of the next dial.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use leasehold_core::StoreError;
use leasehold_core::backoff::{Backoff, Jitter};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::mutex::Mutex;

/// The first and the longest pause before an address is dialled again: at most four dials a second.
/// A request waits for the next dial, so the longest pause is well below the timeout of a request.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(320));

/// The addresses that could not be dialled.
#[derive(Debug)]
pub(crate) struct Paces<A> {
    failing: Mutex<HashMap<A, Failing>>,
    jitter: Mutex<Jitter>,
}

/// An address whose last dial failed.
#[derive(Debug)]
struct Failing {
    error: StoreError,
    failed: Instant,
    next: Instant,
    backoff: Backoff,
    /// Notified when a dial has ended.
    changed: Arc<Notify>,
}

/// The next step of a caller that wants to dial.
#[derive(Debug)]
enum Turn {
    Dial,
    /// Another caller has dialled, and failed.
    Failed(StoreError),
    Wait(Instant),
}

impl<A> Default for Paces<A> {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(());
        Self { failing: Mutex::default(), jitter: Mutex::new(Jitter::new(seed)) }
    }
}

impl<A: Clone + Eq + Hash> Paces<A> {
    /// Waits until this address may be dialled. It does not wait for a caller that has the turn but
    /// does not use it, because that caller's runtime may be blocked.
    ///
    /// # Errors
    ///
    /// The error of another dial that failed meanwhile.
    pub(crate) async fn turn(&self, address: &A) -> Result<(), StoreError> {
        self.turn_since(Instant::now(), address).await
    }

    /// Like [`turn`](Self::turn), for a caller that has wanted to dial since `wanted`.
    pub(crate) async fn turn_since(&self, wanted: Instant, address: &A) -> Result<(), StoreError> {
        loop {
            let (at, changed) = {
                let mut failing = self.failing();
                let Some(failing) = failing.get_mut(address) else { return Ok(()) };
                match failing.turn(wanted, Instant::now(), &mut self.jitter()) {
                    Turn::Dial => return Ok(()),
                    Turn::Failed(error) => return Err(error),
                    Turn::Wait(at) => (at, Arc::clone(&failing.changed).notified_owned()),
                }
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(at) => {}
            }
        }
    }

    /// Records the result of a dial.
    pub(crate) fn dialled<T>(&self, address: &A, outcome: &Result<T, StoreError>) {
        let mut failing = self.failing();
        match outcome {
            Ok(_) => {
                if let Some(failing) = failing.remove(address) {
                    failing.changed.notify_waiters();
                }
            }
            Err(error) => {
                let now = Instant::now();
                let new = || Failing::new(error, now, &mut self.jitter());
                let failing = failing.entry(address.clone()).or_insert_with(new);
                (failing.error, failing.failed) = (error.clone(), now);
                failing.changed.notify_waiters();
            }
        }
    }

    fn failing(&self) -> MutexGuard<'_, HashMap<A, Failing>> {
        self.failing.lock()
    }

    fn jitter(&self) -> MutexGuard<'_, Jitter> {
        self.jitter.lock()
    }
}

impl Failing {
    fn new(error: &StoreError, now: Instant, jitter: &mut Jitter) -> Self {
        let mut backoff = Backoff::new(PAUSE.0, PAUSE.1);
        let next = now + backoff.next_delay(jitter);
        Self { error: error.clone(), failed: now, next, backoff, changed: Arc::default() }
    }

    /// The next step, at `now`, of a caller that has wanted to dial since `wanted`.
    fn turn(&mut self, wanted: Instant, now: Instant, jitter: &mut Jitter) -> Turn {
        if self.failed > wanted {
            return Turn::Failed(self.error.clone());
        }
        if now < self.next {
            return Turn::Wait(self.next);
        }
        self.next = now + self.backoff.next_delay(jitter);
        Turn::Dial
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
        let (began, mut jitter) = (Instant::now(), Jitter::new(1));
        let mut failing = Failing::new(&refused(), began, &mut jitter);
        let mut dials = vec![began];
        for ms in 1..60_000 {
            let now = began + Duration::from_millis(ms);
            for _ in 0..100 {
                if let Turn::Dial = failing.turn(now, now, &mut jitter) {
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
        let (began, mut jitter) = (Instant::now(), Jitter::new(1));
        let mut failing = Failing::new(&refused(), began, &mut jitter);
        let wanted = began + Duration::from_millis(10);
        assert!(matches!(failing.turn(wanted, wanted, &mut jitter), Turn::Wait(_)));
        let next = began + Duration::from_secs(1);
        assert!(matches!(failing.turn(next, next, &mut jitter), Turn::Dial));
        assert!(matches!(failing.turn(wanted, next, &mut jitter), Turn::Wait(_)));
        failing.failed = next;
        assert!(matches!(failing.turn(wanted, next, &mut jitter), Turn::Failed(_)));
    }

    #[tokio::test]
    async fn once_a_dial_has_worked_everybody_dials() {
        let paces = Paces::default();
        paces.dialled::<()>(&"host", &Err(refused()));
        let waiting = std::pin::pin!(paces.turn(&"host"));
        let back = async { paces.dialled(&"host", &Ok(())) };
        let (turn, ()) = futures_util::future::join(waiting, back).await;
        turn.unwrap();
        assert!(paces.failing().is_empty());
    }
}
