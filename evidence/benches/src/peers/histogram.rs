//! Waits, counted in buckets that are the same in every language.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The factor between the waits of one bucket and those of the bucket before.
const STEP: f64 = 1.05;

/// Counts by bucket: bucket `n` has the waits from `STEP`ⁿ µs to `STEP`ⁿ⁺¹ µs. The first bucket
/// also has all shorter waits.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Histogram(BTreeMap<u32, u64>);

impl Histogram {
    pub(super) fn add(&mut self, wait: Duration) {
        let us = (wait.as_secs_f64() * 1e6).max(1.0);
        *self.0.entry((us.ln() / STEP.ln()) as u32).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    /// The time that this share of the waits does not exceed, to 5 %.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let all: u64 = self.0.values().sum();
        let rank = (all as f64 * share).ceil() as u64;
        let mut below = 0;
        for (bucket, count) in &self.0 {
            below += count;
            if below >= rank {
                return Duration::from_secs_f64(STEP.powi(*bucket as i32 + 1) / 1e6);
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_twentieth() {
        let (mut one, mut all) = (Histogram::default(), Histogram::default());
        for ms in 1..=100 {
            one.add(Duration::from_millis(ms));
        }
        all.merge(&one);
        all.merge(&one);
        let median = all.quantile(0.5);
        assert!(median >= Duration::from_millis(50) && median < Duration::from_micros(52_600));
        assert!(all.quantile(0.99) >= Duration::from_millis(99));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
