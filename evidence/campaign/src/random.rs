//! Choices, drawn from a seed.

use std::time::Duration;

use leasehold_core::backoff::Jitter;

/// A source of choices.
pub(crate) struct Random(Jitter);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Jitter::new(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        // The limit is far below 2^64, so the remainder favours no number noticeably.
        (self.0.next_u64() % end as u64) as usize
    }

    /// True in this many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A span below this one.
    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        self.0.between(Duration::ZERO, longest)
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }
}
