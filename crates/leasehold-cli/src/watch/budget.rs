//! The budget for looking at keys: a fixed number a second, however many keys there are.

use std::collections::VecDeque;

/// The window in which at most a share of the budget is spent: 250 ms, so that a server is asked
/// for few keys at a time. Keeping within the share of each window also keeps within the budget of
/// each second.
const WINDOW_MS: u64 = 250;

/// The share for each window, and what was spent in the last window.
#[derive(Debug)]
pub(super) struct Budget {
    per_window: u32,
    spent: VecDeque<(u64, u32)>,
}

impl Budget {
    /// A budget of this many keys a second.
    pub(super) fn new(keys_per_second: u32) -> Self {
        let windows = u32::try_from(1000 / WINDOW_MS).unwrap_or(1);
        Self { per_window: (keys_per_second / windows).max(2), spent: VecDeque::new() }
    }

    /// Whether at least half of a window's share is left, which is enough to begin. A share that
    /// was spent in pieces comes back in pieces. If each piece were spent as soon as it came back,
    /// each request would be for only a few keys. Then the requests themselves would cost a server
    /// more than the look at the keys.
    pub(super) fn is_enough(&mut self, now_ms: u64) -> bool {
        self.left(now_ms) >= self.enough()
    }

    fn enough(&self) -> u32 {
        self.per_window.div_ceil(2).max(2)
    }

    /// The fewest keys that are worth a request, if more can be asked for later.
    pub(super) fn least(&self) -> u32 {
        (self.per_window / 16).max(1)
    }

    /// How many keys may be looked at now.
    pub(super) fn left(&mut self, now_ms: u64) -> u32 {
        while self.spent.front().is_some_and(|(at_ms, _)| at_ms + WINDOW_MS <= now_ms) {
            self.spent.pop_front();
        }
        let spent: u32 = self.spent.iter().map(|(_, keys)| keys).sum();
        self.per_window.saturating_sub(spent)
    }

    /// Records how many keys were looked at.
    pub(super) fn spend(&mut self, now_ms: u64, keys: u32) {
        self.spent.push_back((now_ms, keys));
    }

    /// The time at which enough of the budget is back to begin.
    pub(super) fn refilled_ms(&mut self, mut now_ms: u64) -> u64 {
        let mut left = self.left(now_ms);
        for (at_ms, keys) in &self.spent {
            if left >= self.enough() {
                break;
            }
            left += keys;
            now_ms = at_ms + WINDOW_MS;
        }
        now_ms
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

    #[test]
    fn what_was_spent_in_pieces_is_enough_again_when_there_is_half_of_it() {
        let mut budget = Budget::new(400);
        (0..10).for_each(|at_ms| budget.spend(at_ms, 10));
        assert_eq!((budget.left(20), budget.is_enough(20)), (0, false));
        assert_eq!(budget.refilled_ms(20), 254, "with the fifth of ten");
        assert_eq!((budget.left(253), budget.is_enough(253)), (40, false));
        assert_eq!((budget.left(254), budget.is_enough(254)), (50, true));
        assert_eq!(budget.refilled_ms(254), 254);
    }
}
