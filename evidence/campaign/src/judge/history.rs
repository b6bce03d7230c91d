//! Judges the same records as a history, like the tests of faults: whole calls, from the request to
//! the release, instead of the promises of a guard from moment to moment.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::FencingToken;
use leasehold::admin::{ClientId, HolderId};
use leasehold::lease::Mode;
use leasehold_testkit::history::{Call, History, Hold, Outcome, Violation as Kind};

use super::story::{Promise, Story, Violation};
use crate::stall::Stalls;

/// The longest time that a name may be free with a waiter: generous, for a busy machine, and longer
/// than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(45);

pub(super) fn violations(story: &Story, stalls: &Stalls) -> Vec<Violation> {
    let history = |time: &dyn Fn(u64) -> u64| {
        let calls = calls(story, time);
        History { calls, ..History::default() }
    };
    let check = |kind| match kind {
        Kind::TokenTwice => "I1",
        Kind::TokenOrder => "I2",
        Kind::WriteOrder => "I3",
        Kind::Overlap => "I4",
        Kind::UntoldLoss => "I5",
        Kind::GivenUpYetHeld => "I7",
        Kind::LostWakeUp => "I8",
        Kind::Excess => "I9",
        Kind::AttemptTwice => "I10",
        Kind::Remains => "I11",
        Kind::WrongError => "I12",
    };
    // The promises show the same pairs one by one, with their times.
    let is_new = |kind: &Kind| {
        !matches!(kind, Kind::Overlap | Kind::Excess | Kind::TokenTwice | Kind::TokenOrder)
            || story.violations(0).is_empty()
    };
    let by_the_clock = history(&|at| at);
    let mut found = by_the_clock.violations(PATIENCE);
    // A busy machine is no violation: by the clock without stalls, only durations count.
    if found.remove(&Kind::LostWakeUp) {
        let lost = history(&|at| stalls.time(at)).violations(PATIENCE);
        found.extend(lost.into_iter().filter(|kind| *kind == Kind::LostWakeUp));
    }
    let ns = |at: Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let window = |kind: &Kind| match (kind, by_the_clock.longest_idle_wait()) {
        (Kind::LostWakeUp, Some((since, until))) => (ns(since), ns(until)),
        _ => (0, 0),
    };
    let found = found.into_iter().filter(is_new);
    found.map(|kind| Violation::new(check(kind), format!("{kind:?}"), window(&kind))).collect()
}

/// The calls, with times by this clock.
fn calls(story: &Story, time: &dyn Fn(u64) -> u64) -> Vec<Call> {
    let time = |at: u64| Duration::from_nanos(time(at));
    let mut of_lineage: HashMap<u64, Vec<&Promise>> = HashMap::new();
    for promise in &story.promises {
        of_lineage.entry(promise.lineage).or_default().push(promise);
    }
    let mut calls = Vec::new();
    for grant in &story.grants {
        // A process that was killed immediately has recorded nothing.
        let Some(promises) = of_lineage.get(&grant.guard) else { continue };
        let Some(first) = promises.first() else { continue };
        let left = promises.iter().map(|promise| promise.to).max().unwrap_or(grant.entered);
        let Some(token) = FencingToken::from_number(grant.token) else { continue };
        let hold = Hold {
            token,
            entered: time(grant.entered),
            left: time(left),
            valid_until: time(left),
            was_told: false,
        };
        calls.push(Call {
            id: HolderId { client: ClientId(grant.client), attempt: grant.attempt },
            mode: mode(first),
            asked: time(grant.asked),
            outcome: Outcome::Held(hold),
        });
    }
    // A caller does not know the number of an attempt that it gave up.
    let nobody = HolderId { client: ClientId(0), attempt: 0 };
    for (asked, at) in &story.given_up {
        let outcome = Outcome::GaveUp { at: time(*at) };
        let asked = time(*asked);
        calls.push(Call { id: nobody, mode: Mode::Exclusive, asked, outcome });
    }
    calls
}

fn mode(promise: &Promise) -> Mode {
    let number = |of: u64| u32::try_from(of).unwrap_or(u32::MAX);
    Mode::of(number(promise.weight), number(promise.capacity))
}
