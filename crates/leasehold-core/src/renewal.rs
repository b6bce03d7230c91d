//! When to renew a lease, when that is overdue, and when the lease is lost.
//!
//! A state machine without a clock: the caller passes the time and the events, and the machine
//! returns when to wake it next. A failed renewal never ends a lease; only time and the store's
//! answer do.

use std::time::Duration;

use crate::backoff::{Backoff, Jitter};
use crate::lease::LossReason;
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
    valid_until: Instant,
    /// The latest end of the validity, once it is set.
    limit: Option<Instant>,
    next: Instant,
    in_flight: bool,
    overdue: bool,
    backoff: Backoff,
}

/// The work that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// The lease is lost.
    Lost(LossReason),
    /// Send a renewal, and give up on its answer after `timeout`.
    Send {
        /// The time for the answer. It is shorter than the rest of the validity, so that there is
        /// time for another try.
        timeout: Duration,
    },
    /// Nothing is due until [`Renewing::wake_at`].
    Wait,
}

impl Renewing {
    /// A lease that was granted at `now` and is valid until `valid_until`.
    pub fn new(
        ttl: Duration,
        renewal: Renewal,
        valid_until: Instant,
        now: Instant,
        seed: u64,
    ) -> Self {
        let mut renewing = Self {
            ttl,
            renewal,
            valid_until,
            limit: None,
            next: now,
            in_flight: false,
            overdue: false,
            backoff: Backoff::new(RETRY, Jitter::new(seed)),
        };
        renewing.next = now + renewing.interval(now);
        renewing
    }

    /// A third of the ttl, plus or minus a tenth. If less than the ttl is left, it is a third of
    /// the rest: a lease that was handed over is only valid for the claim window.
    fn interval(&mut self, now: Instant) -> Duration {
        let left = self.valid_until.saturating_since(now);
        self.backoff.jitter.around(self.ttl.min(left) / 3)
    }

    /// Ends the lease at `limit`, even if its holder is healthy: `max_hold` after the start of the
    /// hold.
    pub fn limit_to(&mut self, limit: Instant) {
        self.limit = Some(limit);
    }

    /// Renews for this ttl from now on, once every third of the ttl.
    pub fn set_ttl(&mut self, now: Instant, ttl: Duration) {
        self.ttl = ttl;
        let interval = self.interval(now);
        self.renew_by(now + interval);
    }

    /// Chooses who renews the lease from now on. A renewal that is in flight still counts.
    pub fn set_renewal(&mut self, renewal: Renewal) {
        self.renewal = renewal;
    }

    /// The end of the time for which the holder may rely on the lease.
    pub fn valid_until(&self) -> Instant {
        self.limit.map_or(self.valid_until, |limit| limit.min(self.valid_until))
    }

    /// The time of the next call to [`Renewing::tick`].
    pub fn wake_at(&self) -> Instant {
        match self.renewal {
            Renewal::Auto if !self.in_flight => self.next.min(self.valid_until()),
            Renewal::Auto | Renewal::Off => self.valid_until(),
        }
    }

    /// Returns the work that is due at `now`.
    pub fn tick(&mut self, now: Instant) -> Tick {
        if now >= self.valid_until() {
            let limited = self.limit.is_some_and(|limit| now >= limit);
            return Tick::Lost(if limited { LossReason::HeldTooLong } else { LossReason::Expired });
        }
        if self.renewal == Renewal::Off
            || self.in_flight
            || now + BATCH_SLACK.min(self.ttl / 20) < self.next
        {
            return Tick::Wait;
        }
        self.in_flight = true;
        let left = self.valid_until.saturating_since(now);
        Tick::Send { timeout: (self.ttl / 6).min(left / 2) }
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

    /// Records a renewal that was granted until `valid_until`. The validity never gets shorter by
    /// this: an answer that was overtaken by a newer one changes nothing.
    pub fn succeeded(&mut self, now: Instant, valid_until: Instant) {
        self.in_flight = false;
        self.overdue = false;
        self.backoff.reset();
        self.valid_until = self.valid_until.max(valid_until);
        self.next = now + self.interval(now);
    }

    /// Records a renewal without an answer or a connection. Returns true for the first failure
    /// since the last success: the renewal is overdue from now on, and the lease is still valid.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.in_flight = false;
        self.next = now + self.backoff.next_delay();
        !std::mem::replace(&mut self.overdue, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TTL: Duration = Duration::from_secs(30);

    fn at(ms: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(ms))
    }

    fn granted() -> Renewing {
        Renewing::new(TTL, Renewal::Auto, at(29_000), at(0), 7)
    }

    #[test]
    fn a_renewal_is_due_after_a_third_of_the_ttl_and_not_sent_twice() {
        let mut renewing = granted();
        assert_eq!(renewing.tick(at(8_000)), Tick::Wait);
        let due = renewing.wake_at();
        assert!(at(8_600) <= due && due <= at(11_000), "{due:?}");
        assert_eq!(renewing.tick(due), Tick::Send { timeout: TTL / 6 });
        assert_eq!(renewing.tick(due), Tick::Wait, "one is in flight");
        assert_eq!(renewing.wake_at(), at(29_000), "but the end is still watched");
    }

    #[test]
    fn a_renewal_is_sent_early_by_no_more_than_the_slack_or_a_twentieth_of_a_short_ttl() {
        for (ttl, early) in [(TTL, 50_u64), (Duration::from_millis(400), 20)] {
            let tick_early = |by: u64| {
                let mut renewing = Renewing::new(ttl, Renewal::Auto, at(0) + ttl, at(0), 7);
                renewing.renew_by(at(100));
                renewing.tick(at(100 - by))
            };
            assert!(matches!(tick_early(early), Tick::Send { .. }), "{ttl:?}");
            assert_eq!(tick_early(early + 1), Tick::Wait, "{ttl:?}");
        }
    }

    #[test]
    fn a_lease_that_is_not_renewed_is_lost_exactly_at_the_end_of_its_validity() {
        let mut renewing = granted();
        assert!(matches!(renewing.tick(at(28_999)), Tick::Send { .. }));
        assert_eq!(renewing.tick(at(29_000)), Tick::Lost(LossReason::Expired));
    }

    #[test]
    fn only_the_first_failure_is_reported_as_overdue_until_a_success() {
        let mut renewing = granted();
        assert!(renewing.failed(at(10_000)));
        assert!(!renewing.failed(at(10_100)));
        renewing.succeeded(at(10_200), at(39_000));
        assert!(renewing.failed(at(20_000)));
    }

    #[test]
    fn an_answer_that_was_overtaken_shortens_nothing() {
        let mut renewing = granted();
        renewing.succeeded(at(10_000), at(20_000));
        assert_eq!(renewing.valid_until(), at(29_000));
    }

    #[test]
    fn a_renewal_whose_answer_nobody_waited_for_is_sent_again_and_no_other() {
        let mut renewing = granted();
        renewing.resume(at(1_000));
        assert_eq!(renewing.tick(at(1_000)), Tick::Wait, "none was in flight");
        assert!(matches!(renewing.tick(at(12_000)), Tick::Send { .. }));
        renewing.resume(at(12_500));
        assert_eq!(renewing.tick(at(12_500)), Tick::Send { timeout: TTL / 6 });
    }

    #[test]
    fn max_hold_ends_a_healthy_lease() {
        let mut renewing = granted();
        renewing.limit_to(at(40_000));
        renewing.succeeded(at(20_000), at(49_000));
        assert_eq!(renewing.valid_until(), at(40_000));
        assert_eq!(renewing.tick(at(40_000)), Tick::Lost(LossReason::HeldTooLong));
    }

    #[test]
    fn with_another_ttl_a_renewal_is_due_after_a_third_of_that() {
        let mut renewing = granted();
        renewing.set_ttl(at(1_000), Duration::from_secs(3));
        assert!(renewing.wake_at() <= at(2_100), "{:?}", renewing.wake_at());
        renewing.set_ttl(at(2_000), 2 * TTL);
        renewing.succeeded(at(2_000), at(61_000));
        assert!(renewing.wake_at() >= at(19_000), "{:?}", renewing.wake_at());
    }

    #[test]
    fn a_lease_that_nobody_renews_only_watches_its_end() {
        let mut renewing = Renewing::new(TTL, Renewal::Off, at(29_000), at(0), 7);
        assert_eq!(renewing.wake_at(), at(29_000));
        assert_eq!(renewing.tick(at(28_000)), Tick::Wait);
    }

    #[test]
    fn a_lease_that_its_holder_is_to_renew_from_now_on_is_not_renewed_any_more() {
        let mut renewing = granted();
        renewing.set_renewal(Renewal::Off);
        assert_eq!(renewing.wake_at(), at(29_000));
        assert_eq!(renewing.tick(at(28_000)), Tick::Wait);
    }

    proptest! {
        #[test]
        fn while_renewals_succeed_in_time_there_is_always_a_third_of_validity_left(
            seed: u64, delays in proptest::collection::vec(0_u64..3_000, 1..50),
        ) {
            let mut renewing = Renewing::new(TTL, Renewal::Auto, at(29_000), at(0), seed);
            for delay in delays {
                let due = renewing.wake_at();
                prop_assert!(renewing.valid_until().saturating_since(due) >= TTL / 3);
                let sent = matches!(renewing.tick(due), Tick::Send { .. });
                prop_assert!(sent);
                let answered = due + Duration::from_millis(delay);
                renewing.succeeded(answered, due + Duration::from_secs(29));
            }
        }

        #[test]
        fn failing_renewals_are_tried_again_within_a_second_until_the_end(seed: u64) {
            let mut renewing = Renewing::new(TTL, Renewal::Auto, at(29_000), at(0), seed);
            let mut now = renewing.wake_at();
            loop {
                match renewing.tick(now) {
                    Tick::Lost(reason) => {
                        prop_assert_eq!(reason, LossReason::Expired);
                        prop_assert_eq!(now, at(29_000));
                        break;
                    }
                    Tick::Send { timeout } => {
                        prop_assert!(now + timeout < at(29_000));
                        renewing.failed(now);
                    }
                    Tick::Wait => prop_assert!(false, "woken for nothing at {:?}", now),
                }
                let next = renewing.wake_at();
                prop_assert!(next > now && next.saturating_since(now) <= Duration::from_secs(1));
                now = next;
            }
        }
    }
}
