//! Delays that grow, with jitter from a seed.

use std::time::Duration;

/// A small generator of pseudo-random numbers (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
/// Only jitter is drawn from it, never an identity.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// A generator that returns the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A span between `low` and `high`.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let most = high.saturating_sub(low).as_nanos() as u64;
        low + Duration::from_nanos(((u128::from(most) * u128::from(self.next_u64())) >> 64) as u64)
    }

    /// `span`, plus or minus up to a tenth.
    pub fn around(&mut self, span: Duration) -> Duration {
        self.between(span - span / 10, span + span / 10)
    }
}

/// Delays that double from a first one up to a longest one, each plus or minus up to a tenth. They
/// are kept in milliseconds: each lease has a backoff.
#[derive(Clone, Debug)]
pub struct Backoff {
    first_ms: u32,
    longest_ms: u32,
    next_ms: u32,
    /// The jitter of the delays, and of other pauses of their owner.
    pub jitter: Jitter,
}

impl Backoff {
    /// Delays from `first` to `longest`.
    pub const fn new((first, longest): (Duration, Duration), jitter: Jitter) -> Self {
        let (first_ms, longest_ms) = (first.as_millis() as u32, longest.as_millis() as u32);
        Self { first_ms, longest_ms, next_ms: first_ms, jitter }
    }

    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        let delay_ms = self.next_ms;
        self.next_ms = delay_ms.saturating_mul(2).min(self.longest_ms);
        self.jitter.around(Duration::from_millis(delay_ms.into()))
    }

    /// Begins again with the first delay.
    pub fn reset(&mut self) {
        self.next_ms = self.first_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_begin_again_after_a_success() {
        let (first, longest) = (Duration::from_millis(50), Duration::from_millis(500));
        let mut backoff = Backoff::new((first, longest), Jitter::new(1));
        for expected in [50, 100, 200, 400, 500, 500] {
            let (low, high) = (expected * 9 / 10, expected * 11 / 10);
            let delay = backoff.next_delay().as_millis();
            assert!((low..=high).contains(&delay), "{delay} is not about {expected}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= first * 11 / 10);
    }

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut jitter = Jitter::new(0);
        let published = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([(); 3].map(|()| jitter.next_u64()), published);
    }

    #[test]
    fn jitter_makes_a_span_longer_and_shorter_by_up_to_a_tenth() {
        let (mut jitter, span) = (Jitter::new(1), Duration::from_secs(100));
        let drawn: Vec<u64> = (0..1000).map(|_| jitter.around(span).as_secs()).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&90), Some(&109)));
    }
}
