//! When to renew a lease.
//!
//! A state machine without a clock: the caller passes the time, how much is left of the lease, and
//! the events, and the machine returns when to wake it next. It never ends a lease: only time and
//! the store's answer do.

use std::time::Duration;

use crate::backoff::{Backoff, Jitter};
use crate::options::Renewal;
use crate::time::Instant;

/// The first and the longest delay after a renewal that failed: 50 ms, and 500 ms, so that the last
/// tenth of a default lease still has several tries.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// A renewal is sent up to 50 ms early, together with others that are due then: ten thousand leases
/// cost twenty calls a second instead of a thousand. The renewal of a short lease is sent at most
/// ttl / 20 early.
pub const BATCH_SLACK: Duration = Duration::from_millis(50);

/// The renewal of one lease.
#[derive(Clone, Debug)]
pub struct Renewing {
    ttl: Duration,
    renewal: Renewal,
    next: Instant,
    in_flight: bool,
    backoff: Backoff,
}

impl Renewing {
    /// A lease that was granted at `now`, and is valid for the time `left`.
    pub fn new(ttl: Duration, renewal: Renewal, left: Duration, now: Instant, seed: u64) -> Self {
        let backoff = Backoff::new(RETRY, Jitter::new(seed));
        let mut renewing = Self { ttl, renewal, next: now, in_flight: false, backoff };
        renewing.next = now + renewing.interval(left);
        renewing
    }

    /// A third of the ttl, plus or minus a tenth. If less than the ttl is left, it is a third of
    /// the rest: a lease that was handed over is only valid for the claim window.
    fn interval(&mut self, left: Duration) -> Duration {
        self.backoff.jitter.around(self.ttl.min(left) / 3)
    }

    /// Renews for this ttl from now on, once every third of the ttl.
    pub fn set_ttl(&mut self, now: Instant, ttl: Duration, left: Duration) {
        self.ttl = ttl;
        let interval = self.interval(left);
        self.renew_by(now + interval);
    }

    /// Chooses who renews the lease from now on. A renewal that is in flight still counts.
    pub fn set_renewal(&mut self, renewal: Renewal) {
        self.renewal = renewal;
    }

    /// The time of the next renewal; `None` while one is in flight, or if the holder renews.
    pub fn wake_at(&self) -> Option<Instant> {
        (self.renewal == Renewal::Auto && !self.in_flight).then_some(self.next)
    }

    /// If a renewal is due at `now`, returns the time for its answer. It is shorter than `left`, so
    /// that there is time for another try.
    pub fn tick(&mut self, now: Instant, left: Duration) -> Option<Duration> {
        let soon = now + BATCH_SLACK.min(self.ttl / 20);
        self.wake_at().filter(|next| *next <= soon)?;
        self.in_flight = true;
        Some((self.ttl / 6).min(left / 2))
    }

    /// Plans a renewal for `at` at the latest, for example because the holder uses a handed-over
    /// lease before the hand-over is confirmed.
    pub fn renew_by(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    /// Plans another renewal for now, because the answer to one that may be in flight is lost.
    pub fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.in_flight) {
            self.renew_by(now);
        }
    }

    /// Records a renewal that was granted. The lease is valid for the time `left`.
    pub fn succeeded(&mut self, now: Instant, left: Duration) {
        self.in_flight = false;
        self.backoff.reset();
        self.next = now + self.interval(left);
    }

    /// Records a renewal without an answer or a connection.
    pub fn failed(&mut self, now: Instant) {
        self.in_flight = false;
        self.next = now + self.backoff.next_delay();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TTL: Duration = Duration::from_secs(30);

    /// What is left of the lease while it does not matter.
    const LEFT: Duration = Duration::from_secs(29);

    fn at(ms: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(ms))
    }

    fn granted() -> Renewing {
        Renewing::new(TTL, Renewal::Auto, LEFT, at(0), 7)
    }

    #[test]
    fn a_renewal_is_due_after_a_third_of_the_ttl_and_not_sent_twice() {
        let mut renewing = granted();
        assert_eq!(renewing.tick(at(8_000), LEFT), None);
        let due = renewing.wake_at().unwrap();
        assert!(at(8_600) <= due && due <= at(11_000), "{due:?}");
        assert_eq!(renewing.tick(due, LEFT), Some(TTL / 6));
        assert_eq!(renewing.tick(due, LEFT), None, "one is in flight");
        assert_eq!(renewing.wake_at(), None);
    }

    #[test]
    fn a_renewal_is_sent_early_by_no_more_than_the_slack_or_a_twentieth_of_a_short_ttl() {
        for (ttl, early) in [(TTL, 50_u64), (Duration::from_millis(400), 20)] {
            let tick_early = |by: u64| {
                let mut renewing = Renewing::new(ttl, Renewal::Auto, ttl, at(0), 7);
                renewing.renew_by(at(100));
                renewing.tick(at(100 - by), ttl)
            };
            assert!(tick_early(early).is_some(), "{ttl:?}");
            assert_eq!(tick_early(early + 1), None, "{ttl:?}");
        }
    }

    #[test]
    fn a_renewal_whose_answer_nobody_waited_for_is_sent_again_and_no_other() {
        let mut renewing = granted();
        renewing.resume(at(1_000));
        assert_eq!(renewing.tick(at(1_000), LEFT), None, "none was in flight");
        assert!(renewing.tick(at(12_000), LEFT).is_some());
        renewing.resume(at(12_500));
        assert_eq!(renewing.tick(at(12_500), LEFT), Some(TTL / 6));
    }

    #[test]
    fn with_another_ttl_a_renewal_is_due_after_a_third_of_that() {
        let mut renewing = granted();
        renewing.set_ttl(at(1_000), Duration::from_secs(3), LEFT);
        assert!(renewing.wake_at() <= Some(at(2_100)), "{:?}", renewing.wake_at());
        renewing.set_ttl(at(2_000), 2 * TTL, LEFT);
        renewing.succeeded(at(2_000), Duration::from_secs(59));
        assert!(renewing.wake_at() >= Some(at(19_000)), "{:?}", renewing.wake_at());
    }

    #[test]
    fn a_lease_that_its_holder_is_to_renew_from_now_on_is_not_renewed_any_more() {
        let mut renewing = granted();
        renewing.set_renewal(Renewal::Off);
        assert_eq!(renewing.wake_at(), None);
        assert_eq!(renewing.tick(at(28_000), LEFT), None);
    }

    proptest! {
        #[test]
        fn while_renewals_succeed_in_time_there_is_always_a_third_of_validity_left(
            seed: u64, delays in proptest::collection::vec(0_u64..3_000, 1..50),
        ) {
            let mut renewing = Renewing::new(TTL, Renewal::Auto, LEFT, at(0), seed);
            let mut until = at(0) + LEFT;
            for delay in delays {
                let due = renewing.wake_at().unwrap();
                let left = until.saturating_since(due);
                prop_assert!(left >= TTL / 3);
                prop_assert!(renewing.tick(due, left).is_some());
                let answered = due + Duration::from_millis(delay);
                until = due + LEFT;
                renewing.succeeded(answered, until.saturating_since(answered));
            }
        }

        #[test]
        fn failing_renewals_are_tried_again_within_a_second_until_the_end(seed: u64) {
            let mut renewing = Renewing::new(TTL, Renewal::Auto, LEFT, at(0), seed);
            let (mut now, until) = (renewing.wake_at().unwrap(), at(0) + LEFT);
            while now < until {
                let timeout = renewing.tick(now, until.saturating_since(now)).unwrap();
                prop_assert!(now + timeout < until);
                renewing.failed(now);
                let next = renewing.wake_at().unwrap().min(until);
                prop_assert!(next > now && next.saturating_since(now) <= Duration::from_secs(1));
                now = next;
            }
        }
    }
}
