//! The budget for looking at keys: a fixed number a second, however many keys there are.

/// How many keys a watcher looks at in a second: 2000.
pub(super) const KEYS_PER_SECOND: u32 = 2_000;

/// The most keys that are asked for at once. It is a fifth of the budget, so that a server is asked
/// for few keys at a time.
const MOST: f64 = KEYS_PER_SECOND as f64 / 5.0;

/// How many keys come back in a millisecond. Together with [`MOST`], a second has no more than
/// [`KEYS_PER_SECOND`].
const PER_MS: f64 = (KEYS_PER_SECOND as f64 - MOST) / 1_000.0;

/// Enough to begin: half of the most. If each key were spent as soon as it came back, each request
/// would be for only a few keys. Then the requests themselves would cost a server more than the
/// look at the keys.
const ENOUGH: f64 = MOST / 2.0;

/// The fewest keys that are worth a request, if more can be asked for later.
pub(super) const LEAST: u32 = 50;

/// How many keys may be looked at, and the time for which that was computed.
#[derive(Debug)]
pub(super) struct Budget {
    left: f64,
    at_ms: u64,
}

impl Budget {
    pub(super) fn new(now_ms: u64) -> Self {
        Self { left: MOST, at_ms: now_ms }
    }

    /// How many keys may be looked at now.
    pub(super) fn left(&mut self, now_ms: u64) -> u32 {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        (self.left, self.at_ms) = ((self.left + passed_ms as f64 * PER_MS).min(MOST), now_ms);
        self.left.max(0.0) as u32
    }

    /// Whether enough is left to begin.
    pub(super) fn is_enough(&mut self, now_ms: u64) -> bool {
        f64::from(self.left(now_ms)) >= ENOUGH
    }

    /// Records how many keys were looked at.
    pub(super) fn spend(&mut self, now_ms: u64, keys: u32) {
        self.left(now_ms);
        self.left -= f64::from(keys);
    }

    /// The time at which enough of the budget is back to begin.
    pub(super) fn refilled_ms(&mut self, now_ms: u64) -> u64 {
        self.left(now_ms);
        let lacking = (ENOUGH - self.left).max(0.0);
        now_ms + (lacking / PER_MS).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_sees_more_spent_than_the_budget_however_greedy_the_spender() {
        let mut budget = Budget::new(0);
        let mut spent: Vec<(u64, u32)> = Vec::new();
        for now_ms in (0..5_000).step_by(7) {
            let keys = budget.left(now_ms);
            budget.spend(now_ms, keys);
            spent.push((now_ms, keys));
        }
        for (begin_ms, _) in &spent {
            let within = |at_ms: &u64| (*begin_ms..begin_ms + 1000).contains(at_ms);
            let sum: u32 = spent.iter().filter(|(at, _)| within(at)).map(|(_, keys)| keys).sum();
            assert!(sum <= KEYS_PER_SECOND, "{sum} keys in the second from {begin_ms} ms on");
        }
        let total: u32 = spent.iter().map(|(_, keys)| keys).sum();
        assert!(total >= 8_000, "what is allowed can be spent: {total}");
    }

    #[test]
    fn an_empty_budget_tells_when_there_is_enough_again() {
        let mut budget = Budget::new(100);
        budget.spend(100, 400);
        assert_eq!((budget.left(100), budget.is_enough(100)), (0, false));
        assert_eq!(budget.refilled_ms(100), 225, "half of it, at 1600 keys a second");
        assert_eq!((budget.is_enough(224), budget.is_enough(225)), (false, true));
        assert_eq!(budget.refilled_ms(225), 225);
    }
}
