//! Whether a measure is flat: the rise of a line through its second half.

use serde::{Deserialize, Serialize};

/// A line through the second half of some samples.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Trend {
    /// The mean of the second half.
    pub(crate) mean: f64,
    /// By how much the line is higher at its end than at its beginning.
    pub(crate) rise: f64,
    /// The most that the line may rise: noise is less, and a leak would exceed it.
    pub(crate) most: f64,
}

impl Trend {
    /// The trend of samples (time, value); the line may rise by a share of the mean, or by `by`.
    pub(super) fn of(samples: &[(f64, f64)], share: f64, by: f64) -> Self {
        let half = &samples[samples.len() / 2..];
        let count = half.len().max(1) as f64;
        let mean_of = |pick: fn(&(f64, f64)) -> f64| half.iter().map(pick).sum::<f64>() / count;
        let (time, mean) = (mean_of(|sample| sample.0), mean_of(|sample| sample.1));
        let together: f64 = half.iter().map(|(at, value)| (at - time) * (value - mean)).sum();
        let alone: f64 = half.iter().map(|(at, _)| (at - time).powi(2)).sum();
        let slope = if alone > 0.0 { together / alone } else { 0.0 };
        let span = match (half.first(), half.last()) {
            (Some((first, _)), Some((last, _))) => last - first,
            _ => 0.0,
        };
        Self { mean, rise: slope * span, most: (share * mean).max(by) }
    }

    pub(crate) fn is_flat(&self) -> bool {
        self.rise <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: impl Fn(u32) -> f64) -> Trend {
        let samples: Vec<_> = (0..100).map(|at| (f64::from(at), value(at))).collect();
        Trend::of(&samples, 0.05, 1.0)
    }

    #[test]
    fn what_grows_at_first_and_then_stays_is_flat() {
        let warm = of(|at| if at < 40 { f64::from(at) } else { 40.0 });
        assert!(warm.is_flat(), "{warm:?}");
    }

    #[test]
    fn what_goes_up_and_down_is_flat() {
        let noisy = of(|at| 100.0 + f64::from(at % 7));
        assert!(noisy.is_flat(), "{noisy:?}");
    }

    #[test]
    fn what_goes_on_growing_is_not() {
        let leak = of(|at| 100.0 + f64::from(at) / 2.0);
        assert!(!leak.is_flat(), "{leak:?}");
        assert!((leak.rise - 24.5).abs() < 1e-9, "{leak:?}");
    }
}
