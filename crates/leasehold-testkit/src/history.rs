//! The history of one name, as its users saw it, and a check of that history.
//!
//! Times are spans since an origin that all of them share. A correct history has none of the kinds
//! of [`Violation`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::admin::HolderId;
use leasehold::lease::Mode;
use leasehold::{Error, FencingToken, Guard};

/// One call of an acquire, and its outcome.
#[derive(Clone, Debug)]
pub struct Call {
    /// The attempt.
    pub id: HolderId,
    /// The requested mode.
    pub mode: Mode,
    /// When the call began.
    pub asked: Duration,
    /// The outcome of the call.
    pub outcome: Outcome,
}

/// The outcome of an acquire.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The caller gave up, and was told that nothing is held.
    GaveUp {
        /// When the caller gave up.
        at: Duration,
    },
    /// It was granted.
    Held(Hold),
}

/// One hold, by the clock of its holder.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Its token.
    pub token: FencingToken,
    /// When the grant returned.
    pub entered: Duration,
    /// When the last work under it ended.
    pub left: Duration,
    /// Until when its holder could rely on it.
    pub valid_until: Duration,
    /// The loss signal had been given when the work ended.
    pub was_told: bool,
}

impl Hold {
    /// The hold of a guard that was granted `now`.
    pub fn begun(guard: &Guard, now: Duration) -> Self {
        let (token, valid_until) = (guard.token(), now + guard.validity());
        Self { token, entered: now, left: now, valid_until, was_told: false }
    }

    /// The end of the span in which its holder relied on the hold. A hold ends with its validity,
    /// even if work goes on afterwards.
    fn end(&self) -> Duration {
        self.left.min(self.valid_until).max(self.entered)
    }
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Two grants have the same token.
    TokenTwice,
    /// A grant that was requested after another grant had returned has a lower token than that one.
    TokenOrder,
    /// The resource accepted a lower token after a higher one.
    WriteOrder,
    /// Two calls held at the same time, in a mode that only one can have.
    Overlap,
    /// More permits were held at the same time than there are, or a reader and a writer held
    /// together.
    Excess,
    /// Work went on after the validity of its lease, and without a loss signal.
    UntoldLoss,
    /// An attempt holds although it was given up.
    GivenUpYetHeld,
    /// Nobody held while somebody waited, for longer than is allowed.
    LostWakeUp,
    /// One attempt has tokens of two grants.
    AttemptTwice,
    /// Something was left in the store that no client could still want.
    Remains,
    /// A caller got another error for a fault that passes or for a lost lease.
    WrongError,
}

/// Everything that happened to one name.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The calls, in any order.
    pub calls: Vec<Call>,
    /// The tokens that the protected resource accepted, in that order.
    pub accepted: Vec<FencingToken>,
    /// Errors that are no outcome, which callers got during faults that pass.
    pub errors: Vec<Error>,
    /// The data that the store still had after the retention.
    pub remains: Vec<String>,
}

impl History {
    /// The violations that happened. `patience` is the longest time that nobody may hold while
    /// somebody waits.
    pub fn violations(&self, patience: Duration) -> BTreeSet<Violation> {
        let is_too_long = |(since, until): (Duration, Duration)| until - since > patience;
        let checks = [
            (Violation::TokenTwice, self.has_token_twice()),
            (Violation::TokenOrder, self.has_tokens_out_of_order()),
            (Violation::WriteOrder, !self.accepted.is_sorted()),
            (Violation::Overlap, self.has_overlap()),
            (Violation::Excess, self.has_excess()),
            (Violation::UntoldLoss, self.has_untold_loss()),
            (Violation::GivenUpYetHeld, self.has_given_up_yet_held()),
            (Violation::LostWakeUp, self.longest_idle_wait().is_some_and(is_too_long)),
            (Violation::AttemptTwice, self.has_attempt_twice()),
            (Violation::Remains, !self.remains.is_empty()),
            (Violation::WrongError, self.errors.iter().any(is_wrong)),
        ];
        checks.into_iter().filter(|(_, is_so)| *is_so).map(|(violation, _)| violation).collect()
    }

    /// Like [`violations`](Self::violations), for a store that may forget a lease. A client that
    /// has not noticed this may pass the lease on, below a token that was granted meanwhile. So
    /// only the tokens of grants must be in order.
    pub fn violations_if_forgotten(&self, patience: Duration) -> BTreeSet<Violation> {
        let is_grant = |call: &&Call| match &call.outcome {
            Outcome::Held(hold) => hold.token.passes() == 0,
            Outcome::GaveUp { .. } => false,
        };
        let calls = self.calls.iter().filter(is_grant).cloned().collect();
        let grants = Self { calls, ..Self::default() };
        let mut violations = self.violations(patience);
        if !grants.has_tokens_out_of_order() {
            violations.remove(&Violation::TokenOrder);
        }
        violations
    }

    /// Fails the test if there is a violation.
    pub fn check(&self, patience: Duration) {
        let violations = self.violations(patience);
        assert!(violations.is_empty(), "{violations:?} in {self:#?}");
    }

    fn holds(&self) -> impl Iterator<Item = (&Call, &Hold)> {
        self.calls.iter().filter_map(|call| match &call.outcome {
            Outcome::Held(hold) => Some((call, hold)),
            Outcome::GaveUp { .. } => None,
        })
    }

    fn has_token_twice(&self) -> bool {
        let tokens: BTreeSet<_> = self.holds().map(|(_, hold)| hold.token).collect();
        tokens.len() < self.holds().count()
    }

    fn has_attempt_twice(&self) -> bool {
        // If a lease is passed on inside a client, its tokens differ, but belong to one grant.
        let mut grants = BTreeMap::new();
        self.holds().any(|(call, hold)| {
            let grant = hold.token.micros();
            grants.insert(call.id, grant).is_some_and(|other| other != grant)
        })
    }

    /// Sweeps over grants and calls in order of time, with the highest token granted so far.
    fn has_tokens_out_of_order(&self) -> bool {
        let mut events: Vec<_> = self
            .holds()
            .flat_map(|(call, hold)| {
                [(call.asked, false, hold.token), (hold.entered, true, hold.token)]
            })
            .collect();
        events.sort_unstable();
        let (mut highest, mut least) = (None, BTreeMap::new());
        for (_, is_grant, token) in events {
            if is_grant {
                if least.get(&token).is_some_and(|least: &Option<_>| Some(token) <= *least) {
                    return true;
                }
                highest = highest.max(Some(token));
            } else {
                // The tokens of all grants before this call must be lower than its token.
                least.insert(token, highest);
            }
        }
        false
    }

    /// Whether two held at the same time, both in a mode that only one can have.
    fn has_overlap(&self) -> bool {
        self.most_at_once(|mode| i64::from(mode == Mode::Exclusive)) > 1
    }

    /// Whether more was held at the same time than there is, in any mode.
    fn has_excess(&self) -> bool {
        let shares = self.calls.iter().any(|call| call.mode != Mode::Exclusive);
        let capacity = self.calls.first().map_or(0, |call| i64::from(call.mode.capacity()));
        shares && self.most_at_once(|mode| i64::from(mode.weight())) > capacity
    }

    /// Sweeps over the ends of all holds. At the same moment, ends come before beginnings.
    fn most_at_once(&self, weigh: impl Fn(Mode) -> i64) -> i64 {
        let mut ends: Vec<_> = self
            .holds()
            .flat_map(|(call, hold)| {
                [(hold.entered, weigh(call.mode)), (hold.end(), -weigh(call.mode))]
            })
            .collect();
        ends.sort_unstable();
        let mut held = 0;
        let levels = ends.into_iter().map(|(_, weight)| {
            held += weight;
            held
        });
        levels.max().unwrap_or(0)
    }

    fn has_untold_loss(&self) -> bool {
        self.holds().any(|(_, hold)| hold.left > hold.valid_until && !hold.was_told)
    }

    fn has_given_up_yet_held(&self) -> bool {
        let is_over = |call: &&Call| matches!(call.outcome, Outcome::GaveUp { .. });
        let over: BTreeSet<_> = self.calls.iter().filter(is_over).map(|call| call.id).collect();
        self.holds().any(|(call, _)| over.contains(&call.id))
    }

    /// The longest span in which nobody held while somebody waited: its beginning and its end.
    pub fn longest_idle_wait(&self) -> Option<(Duration, Duration)> {
        let mut changes = Vec::new();
        for call in &self.calls {
            let until = match &call.outcome {
                Outcome::GaveUp { at } => *at,
                Outcome::Held(hold) => {
                    changes.extend([(hold.entered, 0, 1), (hold.left, 0, -1)]);
                    hold.entered
                }
            };
            changes.extend([(call.asked, 1, 0), (until, -1, 0)]);
        }
        changes.sort_unstable_by_key(|(at, _, _)| *at);
        let (mut waiting, mut holding, mut idle_since) = (0, 0, None);
        let mut longest = None;
        for (at, waits, holds) in changes {
            waiting += waits;
            holding += holds;
            let is_idle = waiting > 0 && holding <= 0;
            match (is_idle, idle_since) {
                (true, None) => idle_since = Some(at),
                (false, Some(since)) => {
                    let took = |(since, until): (Duration, Duration)| until - since;
                    if longest.is_none_or(|longest| took((since, at)) > took(longest)) {
                        longest = Some((since, at));
                    }
                    idle_since = None;
                }
                (true, Some(_)) | (false, None) => {}
            }
        }
        longest
    }
}

/// During passing faults, a caller may get an error for such a fault or for the loss of a lease. A
/// refusal, a wrong record or a wrong name is none of them.
fn is_wrong(error: &Error) -> bool {
    !error.is_transient() && !matches!(error, Error::Lost { .. } | Error::NotAdopted { .. })
}

#[cfg(test)]
mod tests;
