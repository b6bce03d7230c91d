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
    /// Its process ended while it waited.
    Died {
        /// When the process ended.
        at: Duration,
    },
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
    /// A waiter was served before one that had joined earlier and waited throughout.
    OutOfOrder,
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
    /// The attempts in the order in which they joined the queue, where that is known.
    pub joined: Vec<HolderId>,
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
            (Violation::OutOfOrder, self.is_out_of_order()),
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
            Outcome::GaveUp { .. } | Outcome::Died { .. } => false,
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
            Outcome::GaveUp { .. } | Outcome::Died { .. } => None,
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

    /// Whether a waiter was granted before another that had joined earlier. Only waiters that held
    /// in the end count, because they waited throughout.
    fn is_out_of_order(&self) -> bool {
        let tokens: BTreeMap<_, _> =
            self.holds().map(|(call, hold)| (call.id, hold.token)).collect();
        !self.joined.iter().filter_map(|id| tokens.get(id)).is_sorted()
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
                Outcome::GaveUp { at } | Outcome::Died { at } => *at,
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
mod tests {
    use leasehold::admin::ClientId;
    use leasehold::error::{StoreError, StoreErrorKind};

    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::from_number(number << 12).unwrap()
    }

    fn id(client: u128) -> HolderId {
        HolderId { client: ClientId(client), attempt: 1 }
    }

    /// Client `client` asks at 0, holds from `entered` to `left` with the token of its number.
    fn held(client: u128, entered: u64, left: u64) -> Call {
        let hold = Hold {
            token: token(client as u64),
            entered: ms(entered),
            left: ms(left),
            valid_until: ms(left + 1000),
            was_told: false,
        };
        let outcome = Outcome::Held(hold);
        Call { id: id(client), mode: Mode::Exclusive, asked: ms(0), outcome }
    }

    fn hold(call: &mut Call) -> &mut Hold {
        match &mut call.outcome {
            Outcome::Held(hold) => hold,
            other => panic!("{other:?}"),
        }
    }

    fn sound() -> History {
        History {
            calls: vec![held(1, 0, 100), held(2, 100, 200), held(3, 205, 300)],
            accepted: vec![token(1), token(2), token(2), token(3)],
            joined: vec![id(1), id(2), id(3)],
            ..History::default()
        }
    }

    /// The violations of a sound history that was changed.
    fn found(change: impl FnOnce(&mut History)) -> Vec<Violation> {
        let mut history = sound();
        change(&mut history);
        history.violations(ms(50)).into_iter().collect()
    }

    #[test]
    fn nothing_is_found_in_a_sound_history() {
        assert_eq!(found(|_| ()), []);
    }

    #[test]
    fn a_token_that_is_given_out_twice_is_found() {
        assert_eq!(found(|h| hold(&mut h.calls[1]).token = token(1)), [Violation::TokenTwice]);
    }

    #[test]
    fn a_token_lower_than_one_granted_before_it_was_asked_for_is_found() {
        let change = |h: &mut History| {
            hold(&mut h.calls[0]).token = token(9);
            h.calls[2].asked = ms(150);
            h.joined.clear();
        };
        assert_eq!(found(change), [Violation::TokenOrder]);
    }

    #[test]
    fn of_a_forgetful_store_grants_must_be_in_order_and_not_what_is_passed_on() {
        let passed_on = token(3).passed_on(1).unwrap();
        for (low, found) in [(passed_on, vec![]), (token(3), vec![Violation::TokenOrder])] {
            let mut history = sound();
            hold(&mut history.calls[0]).token = token(9);
            hold(&mut history.calls[2]).token = low;
            history.calls[2].asked = ms(150);
            history.joined.clear();
            assert_eq!(history.violations(ms(50)), [Violation::TokenOrder].into());
            assert!(history.violations_if_forgotten(ms(50)).into_iter().eq(found));
        }
    }

    #[test]
    fn a_lower_token_that_is_accepted_after_a_higher_one_is_found() {
        assert_eq!(found(|h| h.accepted.push(token(1))), [Violation::WriteOrder]);
    }

    fn overlap(h: &mut History) {
        hold(&mut h.calls[0]).left = ms(101);
    }

    #[test]
    fn two_holders_at_once_are_found_as_far_as_both_could_rely_on_it() {
        assert_eq!(found(overlap), [Violation::Overlap]);
        let told = |h: &mut History| {
            overlap(h);
            let hold = hold(&mut h.calls[0]);
            (hold.valid_until, hold.was_told) = (ms(100), true);
        };
        assert_eq!(found(told), [], "the first had been told");
    }

    #[test]
    fn readers_hold_at_once_and_a_writer_among_them_is_found() {
        let readers = |h: &mut History| {
            overlap(h);
            h.calls.iter_mut().for_each(|call| call.mode = Mode::Shared);
        };
        assert_eq!(found(readers), []);
        for writer in 0..2 {
            let writer = |h: &mut History| {
                readers(h);
                h.calls[writer].mode = Mode::Exclusive;
            };
            assert_eq!(found(writer), [Violation::Excess]);
        }
    }

    #[test]
    fn more_permits_than_there_are_are_found() {
        let permits = |capacity| {
            move |h: &mut History| {
                overlap(h);
                let two = Mode::Permits { count: 2, capacity };
                h.calls.iter_mut().for_each(|call| call.mode = two);
            }
        };
        assert_eq!(found(permits(3)), [Violation::Excess]);
        assert_eq!(found(permits(4)), []);
    }

    #[test]
    fn what_is_left_behind_is_found() {
        assert_eq!(found(|h| h.remains.push("lh:a".into())), [Violation::Remains]);
    }

    #[test]
    fn an_error_that_no_passing_fault_explains_is_found() {
        let told =
            |kind| move |h: &mut History| h.errors.push(Error::Store(StoreError::new(kind, "no")));
        assert_eq!(found(told(StoreErrorKind::Timeout)), []);
        assert_eq!(found(told(StoreErrorKind::Corrupt)), [Violation::WrongError]);
    }

    #[test]
    fn work_after_its_validity_is_found_unless_it_was_told() {
        let late = |h: &mut History| hold(&mut h.calls[0]).valid_until = ms(99);
        assert_eq!(found(late), [Violation::UntoldLoss]);
        let told = |h: &mut History| {
            late(h);
            hold(&mut h.calls[0]).was_told = true;
        };
        assert_eq!(found(told), []);
    }

    #[test]
    fn a_waiter_that_was_overtaken_is_found() {
        assert_eq!(found(|h| h.joined.swap(1, 2)), [Violation::OutOfOrder]);
    }

    #[test]
    fn an_attempt_that_was_given_up_and_holds_is_found() {
        let change = |h: &mut History| {
            let outcome = Outcome::GaveUp { at: ms(50) };
            h.calls.push(Call { outcome, ..h.calls[0].clone() });
        };
        assert_eq!(found(change), [Violation::GivenUpYetHeld]);
    }

    #[test]
    fn a_lock_that_stays_free_though_somebody_waits_is_found() {
        let change = |h: &mut History| {
            hold(&mut h.calls[2]).entered = ms(251);
        };
        assert_eq!(found(change), [Violation::LostWakeUp]);
        let nobody_waits = |h: &mut History| {
            change(h);
            h.calls[2].asked = ms(240);
        };
        assert_eq!(found(nobody_waits), []);
        let died = |h: &mut History| {
            let outcome = Outcome::Died { at: ms(400) };
            h.calls.push(Call { id: id(9), outcome, ..h.calls[0].clone() });
        };
        assert_eq!(found(died), [Violation::LostWakeUp], "if it waited until then");
    }

    #[test]
    fn an_attempt_with_tokens_of_two_grants_is_found() {
        let change = |h: &mut History| {
            h.joined.clear();
            h.calls[2].id = id(1);
        };
        assert_eq!(found(change), [Violation::AttemptTwice]);
        let passed_on = |h: &mut History| {
            h.joined.clear();
            let Outcome::Held(first) = &h.calls[0].outcome else { panic!("it holds") };
            let next = FencingToken::from_number(first.token.get() + 1).unwrap();
            let (accepted, id) = (first.token, h.calls[0].id);
            h.calls.truncate(2);
            h.calls[1].id = id;
            if let Outcome::Held(second) = &mut h.calls[1].outcome {
                h.accepted = vec![accepted, next];
                second.token = next;
            }
        };
        assert_eq!(found(passed_on), [], "inside of a client");
    }
}
