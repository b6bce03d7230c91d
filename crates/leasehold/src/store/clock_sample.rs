//! Samples of a store's clock, and whether the clock was set between two of them.

use std::fmt;
use std::time::Duration;

use leasehold_core::text::show_duration;
use leasehold_core::{Answer, Instant, Sample};

use super::traits::Reading;

/// A store's clock counts as set if it steps by more than this, in addition to the time that a
/// request took: 1 s, far above what NTP corrects by slewing.
const STEP: Duration = Duration::from_secs(1);

/// A reading of a store's clock, at some time between two readings of the client's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSample {
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    /// The clock by which leases end.
    pub(crate) lease_us: u64,
    /// The clock from which tokens are minted, if it was read.
    pub(crate) token_us: Option<u64>,
}

/// A step of a store's clock, backwards or forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockStep {
    Back(Duration),
    Forward(Duration),
}

impl ClockSample {
    pub(super) fn of_answer(answer: &Answer, sent: Instant, received: Instant) -> Self {
        let now = answer.now;
        Self { sent, received, lease_us: now.lease_us, token_us: Some(now.token_us) }
    }

    /// The sample that was taken when the store was opened.
    pub(super) fn of_reading(reading: Reading, received: Instant) -> Self {
        let sent = received.saturating_sub(reading.age);
        Self { sent, received, lease_us: reading.lease_us, token_us: None }
    }

    /// The lease clock's part of the sample, for judging a grant that came in a message.
    pub(crate) fn lease_clock(self) -> Sample {
        Sample { sent: self.sent, server_us: self.lease_us }
    }

    /// The latest that the lease clock can show at `now`, if nobody sets it.
    pub(super) fn latest_us(self, now: Instant, drift: f64) -> u64 {
        self.lease_clock().latest_us(now, drift)
    }

    /// The step of the store's clock between this sample and a newer one, if the clock was set: how
    /// far the newer reading is from those that the time since then allows.
    pub(super) fn step_to(self, newer: Self, drift: f64) -> Option<ClockStep> {
        let most = newer.received.saturating_since(self.sent).mul_f64(1.0 + drift);
        let least = newer.sent.saturating_since(self.received).mul_f64(1.0 - drift);
        let before = Duration::from_micros(self.lease_us);
        let after = Duration::from_micros(newer.lease_us);
        let forward = after.saturating_sub(before + most);
        let back = (before + least).saturating_sub(after);
        match (forward > STEP, back > STEP) {
            (true, _) => Some(ClockStep::Forward(forward)),
            (_, true) => Some(ClockStep::Back(back)),
            (false, false) => None,
        }
    }
}

impl fmt::Display for ClockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = "let NTP slew clocks, not set them";
        match self {
            Self::Back(by) => write!(
                f,
                "the store's clock was set back by {}: leases end as much later: {remedy}",
                show_duration(*by)
            ),
            Self::Forward(by) => write!(
                f,
                "the store's clock was set forward by {}: leases ended as much earlier, and \
                 two may hold one lock for a while: {remedy}",
                show_duration(*by)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIFT: f64 = 0.01;

    /// A sample of a request that was sent at `sent_s` and took 100 ms, by a clock that showed
    /// `server_s`.
    fn sample(sent_s: u64, server_s: u64) -> ClockSample {
        let sent = Instant::from_origin(Duration::from_secs(sent_s));
        let received = sent + Duration::from_millis(100);
        ClockSample { sent, received, lease_us: server_s * 1_000_000, token_us: None }
    }

    #[test]
    fn a_clock_that_goes_on_as_time_does_was_not_set() {
        let first = sample(10, 1_000_000);
        for (sent_s, server_s) in [(10, 1_000_000), (10, 1_000_001), (20, 1_000_010)] {
            assert_eq!(
                first.step_to(sample(sent_s, server_s), DRIFT),
                None,
                "{sent_s}, {server_s}"
            );
        }
        // Both clocks may drift for an hour.
        for server_s in [1_003_566, 1_003_634] {
            assert_eq!(first.step_to(sample(3610, server_s), DRIFT), None, "{server_s}");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_reported_with_how_far() {
        let first = sample(10, 1_000_000);
        let step = |server_s| first.step_to(sample(20, server_s), 0.0);
        let ms = Duration::from_millis;
        assert_eq!(step(1_000_020), Some(ClockStep::Forward(ms(9_900))));
        assert_eq!(step(1_000_000), Some(ClockStep::Back(ms(9_900))));
        assert_eq!(step(999_000), Some(ClockStep::Back(ms(1_009_900))));
        assert!(ClockStep::Forward(ms(9_900)).to_string().starts_with("the store's clock was set"));
    }
}
