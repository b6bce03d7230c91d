//! The strategies that draw histories.

use std::time::Duration;

use proptest::prelude::*;

use super::history::{LEAD_US, Step, Their, Verb};
use crate::attempts::{Who, acquirer, lease, pass};

pub(crate) fn history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..60)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Again),
        6 => (acquirer(), acquire()).prop_map(|(who, verb)| Step::Ours(who, verb)),
        9 => (0..6_usize, verb()).prop_map(|(back, verb)| Step::Ours(Who::Known(back), verb)),
        4 => pass().prop_map(Step::Pass),
        5 => (0..4_u8, their()).prop_map(|(who, verb)| Step::Theirs(who, verb)),
    ]
}

fn acquire() -> impl Strategy<Value = Verb> {
    (lease(), ballot()).prop_map(|(ttl, ballot)| Verb::Take { ttl, ballot, from: None })
}

fn verb() -> impl Strategy<Value = Verb> {
    let cooldown = prop_oneof![4 => Just(Duration::ZERO), 1 => lease()];
    let describes = prop::option::weighted(0.3, (0..9_u32, -9..9_i64));
    prop_oneof![
        1 => acquire(),
        2 => (0..6_usize, lease(), ballot())
            .prop_map(|(from, ttl, ballot)| Verb::Take { ttl, ballot, from: Some(from) }),
        1 => Just(Verb::Look),
        6 => (any::<bool>(), cooldown)
            .prop_map(|(closes, cooldown)| Verb::End { closes, cooldown }),
        5 => (lease(), describes).prop_map(|(ttl, describes)| Verb::Keep { ttl, describes }),
        2 => any::<bool>().prop_map(|force| Verb::Revoke { force }),
    ]
}

fn their() -> impl Strategy<Value = Their> {
    let theirs = || prop_oneof![Just(1), Just(300), Just(5_000), Just(30_000)];
    prop_oneof![
        1 => Just(Their::Break),
        2 => theirs().prop_map(|lease_ms| Their::Extend { lease_ms }),
        4 => Just(Their::LetGo),
        1 => Just(Their::Persist),
        6 => theirs().prop_map(|lease_ms| Their::Take { lease_ms }),
    ]
}

fn ballot() -> impl Strategy<Value = Option<i64>> {
    prop::option::weighted(0.2, away())
}

/// How far a token is from the clock, in µs: about as far as is allowed, or farther.
fn away() -> impl Strategy<Value = i64> {
    prop_oneof![6 => -2 * LEAD_US..LEAD_US, 1 => LEAD_US - 1..LEAD_US + 2]
}
