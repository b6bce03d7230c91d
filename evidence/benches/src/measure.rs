//! Figures from many samples.

use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Times {
    sorted: Vec<Duration>,
}

impl Times {
    /// Sorts the samples.
    pub(crate) fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self { sorted: samples }
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The time that this share of the samples does not exceed; zero without samples.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let rank = (self.sorted.len() as f64 * share).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    pub(crate) fn longest(&self) -> Duration {
        self.quantile(1.0)
    }
}

/// Jain's fairness index of how often each got its turn: 1 when all got the same, 1 / n when one
/// got everything (Jain, Chiu, Hawe: "A quantitative measure of fairness", 1984).
pub(crate) fn jain(turns: &[usize]) -> f64 {
    let (sum, squares) = turns.iter().fold((0.0, 0.0), |(sum, squares), &turns| {
        let turns = turns as f64;
        (sum + turns, squares + turns * turns)
    });
    if squares == 0.0 { 0.0 } else { sum * sum / (turns.len() as f64 * squares) }
}

/// A time with three digits and a unit.
pub(crate) fn span(time: Duration) -> String {
    format!("{time:.0$?}", digits(time))
}

fn digits(time: Duration) -> usize {
    let mut value = time.as_nanos();
    if value < 1_000 {
        return 0; // there is nothing below a nanosecond
    }
    while value >= 1_000_000 {
        value /= 1_000;
    }
    match value {
        0..10_000 => 2,
        10_000..100_000 => 1,
        _ => 0,
    }
}

pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let times = Times::new((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(times.median(), Duration::from_millis(50));
        assert_eq!(times.quantile(0.99), Duration::from_millis(99));
        assert_eq!(times.longest(), Duration::from_millis(100));
        assert_eq!(Times::new(Vec::new()).median(), Duration::ZERO);
    }

    #[test]
    fn the_index_is_one_for_equals_and_small_for_a_glutton() {
        assert!((jain(&[7, 7, 7]) - 1.0).abs() < 1e-9);
        assert!((jain(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!(span(Duration::from_nanos(52_340)), "52.3µs");
        assert_eq!(span(Duration::from_micros(1_234)), "1.23ms");
        assert_eq!(span(Duration::from_millis(234)), "234ms");
        assert_eq!(span(Duration::from_secs(12)), "12.0s");
        assert_eq!(span(Duration::from_nanos(881)), "881ns");
    }
}
