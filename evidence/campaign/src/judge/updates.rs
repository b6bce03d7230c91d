//! Judges whether reading a value and writing another one was one step, as it must be under a lock.
//! Each update returns the replaced value, so the history is that of a register with a swap.
//! Another project's checker searches this history for an order, in windows.

use std::collections::HashMap;

use stateright::semantics::{ConsistencyTester as _, LinearizabilityTester, SequentialSpec};

use super::story::{Update, Violation};

/// The least number of updates in a window. The search takes exponentially long for overlapping
/// updates, and a lock leaves no overlaps.
const WINDOW: usize = 24;

/// The most updates of one window that are searched; more have never overlapped.
const MOST: usize = 48;

#[derive(Clone)]
struct Swapped(u64);

impl SequentialSpec for Swapped {
    type Op = u64;
    type Ret = u64;

    fn invoke(&mut self, value: &u64) -> u64 {
        std::mem::replace(&mut self.0, *value)
    }
}

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) windows: u64,
    /// Values that two updates have replaced.
    pub(super) lost: u64,
    pub(super) violations: Vec<Violation>,
}

/// Searches the updates of one name in one round for an order.
pub(super) fn search(updates: &mut [Update]) -> Order {
    updates.sort_unstable_by_key(|update| update.invoked);
    let mut order = Order::default();
    order.find_lost(updates);
    order.find_lower_tokens(updates);
    for window in windows(updates) {
        if window.len() <= MOST {
            order.windows += 1;
            if !is_ordered(window) {
                let (from, to) = (&window[0], &window[window.len() - 1]);
                let what = format!("{} updates are in no order", window.len());
                let window = (from.invoked, to.end());
                order.violations.push(Violation::new("updates", what, window));
            }
        }
    }
    order
}

impl Order {
    /// If two updates replaced a value, the value of the first update was never read.
    fn find_lost(&mut self, updates: &[Update]) {
        let mut replaced: HashMap<u64, &Update> = HashMap::new();
        for update in updates {
            let Some((at, old)) = update.returned else { continue };
            if let Some(other) = replaced.insert(old, update) {
                self.lost += 1;
                let what = format!("{} and {} have replaced {old}", other.value, update.value);
                self.violations.push(Violation::new("updates", what, (other.invoked, at)));
            }
        }
    }

    /// A lower token may be accepted only if its update was under way before.
    fn find_lower_tokens(&mut self, updates: &[Update]) {
        let mut ended: Vec<(u64, u64)> =
            updates.iter().filter_map(|update| Some((update.returned?.0, update.token))).collect();
        ended.sort_unstable();
        let mut ended = ended.into_iter().peekable();
        let mut highest = 0;
        for update in updates.iter().filter(|update| update.returned.is_some()) {
            while let Some((_, token)) = ended.next_if(|(at, _)| *at < update.invoked) {
                highest = highest.max(token);
            }
            if update.token < highest {
                let what = format!("{} was accepted after {highest}", update.token);
                self.violations.push(Violation::new("I3", what, (update.invoked, update.end())));
            }
        }
    }
}

/// Cuts a history where nothing is under way. An update without an end may happen at any time after
/// its beginning, within its window.
fn windows(updates: &[Update]) -> impl Iterator<Item = &[Update]> {
    let (mut ends, mut begin, mut latest) = (Vec::new(), 0, 0);
    for (at, update) in updates.iter().enumerate() {
        if update.invoked > latest && at - begin >= WINDOW {
            ends.push((begin, at));
            begin = at;
        }
        latest = latest.max(update.end());
    }
    if begin < updates.len() {
        ends.push((begin, updates.len()));
    }
    ends.into_iter().map(|(from, to)| &updates[from..to])
}

/// Whether there is an order in which each update returns the value of the one before. The first of
/// a window may return any value that no other has written.
fn is_ordered(window: &[Update]) -> bool {
    let is_written = |value: &u64| window.iter().any(|update| update.value == *value);
    let mut replaced = window.iter().filter_map(|update| Some(update.returned?.1));
    let Some(first) = replaced.find(|old| !is_written(old)) else { return true };
    let mut moments: Vec<(u64, bool, &Update)> = Vec::new();
    for update in window {
        moments.push((update.invoked, false, update));
        moments.extend(update.returned.map(|(at, _)| (at, true, update)));
    }
    moments.sort_unstable_by_key(|(at, is_end, update)| (*at, *is_end, update.value));
    let mut tester = LinearizabilityTester::new(Swapped(first));
    for (_, is_end, update) in moments {
        let done = match (is_end, update.returned) {
            (true, Some((_, old))) => tester.on_return(update.value, old).map(drop),
            _ => tester.on_invoke(update.value, update.value).map(drop),
        };
        assert!(done.is_ok(), "{done:?}");
    }
    tester.is_consistent()
}
