//! The first in line lives, or is skipped.

use std::time::Duration;

use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{Instant, LockName};

use super::by_name::Lines;
use super::outcome::Wakeup;
use crate::keeper::table::waiters::Waiters;

/// How long the first of a line may ask without a sign of life while others are behind it: 2 s, as
/// long as a store waits until a grant is claimed.
const FRONT_PATIENCE: Duration = CLAIM_WINDOW;

impl<L> Lines<L> {
    /// Sees to it that the first of a line is skipped when it asks and is not polled any more.
    pub(super) fn watch(&mut self, waiters: &Waiters<L>, name: &LockName) {
        let Some(line) = self.by_name.get_mut(name) else { return };
        if let Some(seen) = line.asks_since(waiters)
            && !std::mem::replace(&mut line.is_watched, true)
        {
            self.watched.insert(seen + FRONT_PATIENCE, name.clone());
        }
    }

    /// Skips whoever has shown no sign of life while others are behind.
    pub(crate) fn take_due(&mut self, waiters: &mut Waiters<L>, now: Instant) -> Vec<Wakeup<L>> {
        let mut wakeups = Vec::new();
        for name in self.watched.take_due(now) {
            let Some(line) = self.by_name.get_mut(&name) else { continue };
            line.is_watched = false;
            if line.asks_since(waiters).is_some_and(|seen| seen + FRONT_PATIENCE <= now) {
                wakeups.extend(line.advance(waiters, now, false));
            }
            self.watch(waiters, &name);
        }
        wakeups
    }
}
