//! How many keys may be looked at: a number a second, whatever there is to see.

use std::collections::VecDeque;

/// Within how long no more than a share of the budget is spent: 250 ms, so that a server is asked
/// for a little at a time. What fits into each of these fits into each second.
const WINDOW_MS: u64 = 250;

/// What may be spent in any window, and what was spent in the last one.
#[derive(Debug)]
pub(super) struct Budget {
    per_window: u32,
    spent: VecDeque<(u64, u32)>,
}

impl Budget {
    /// So many keys a second.
    pub(super) fn new(keys_per_second: u32) -> Self {
        let windows = u32::try_from(1000 / WINDOW_MS).unwrap_or(1);
        Self { per_window: (keys_per_second / windows).max(2), spent: VecDeque::new() }
    }

    /// How many keys may be looked at now.
    pub(super) fn left(&mut self, now_ms: u64) -> u32 {
        while self.spent.front().is_some_and(|(at_ms, _)| at_ms + WINDOW_MS <= now_ms) {
            self.spent.pop_front();
        }
        let spent: u32 = self.spent.iter().map(|(_, keys)| keys).sum();
        self.per_window.saturating_sub(spent)
    }

    /// Notes what was looked at.
    pub(super) fn spend(&mut self, now_ms: u64, keys: u32) {
        self.spent.push_back((now_ms, keys));
    }

    /// When there is more to spend than now.
    pub(super) fn refilled_ms(&self, now_ms: u64) -> u64 {
        self.spent.front().map_or(now_ms, |(at_ms, _)| at_ms + WINDOW_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_sees_more_spent_than_the_budget_however_greedy_the_spender() {
        let mut budget = Budget::new(2000);
        let mut spent: Vec<(u64, u32)> = Vec::new();
        for now_ms in (0..5_000).step_by(7) {
            let keys = budget.left(now_ms);
            budget.spend(now_ms, keys);
            spent.push((now_ms, keys));
        }
        for (begin_ms, _) in &spent {
            let within = |at_ms: &u64| (*begin_ms..begin_ms + 1000).contains(at_ms);
            let sum: u32 = spent.iter().filter(|(at, _)| within(at)).map(|(_, keys)| keys).sum();
            assert!(sum <= 2000, "{sum} keys in the second from {begin_ms} ms on");
        }
        let total: u32 = spent.iter().map(|(_, keys)| keys).sum();
        assert!(total >= 9_000, "what is allowed can be spent: {total}");
    }

    #[test]
    fn an_empty_budget_tells_when_there_is_more() {
        let mut budget = Budget::new(8);
        assert_eq!(budget.left(100), 2);
        budget.spend(100, 2);
        assert_eq!((budget.left(349), budget.refilled_ms(349)), (0, 350));
        assert_eq!(budget.left(350), 2);
    }
}
