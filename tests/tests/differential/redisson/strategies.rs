//! The strategies that draw histories.

use std::time::Duration;

use proptest::prelude::*;

use super::history::{History, Step, Their, Verb};
use crate::attempts::{Who, acquirer, lease, pass};

pub(crate) fn history() -> impl Strategy<Value = History> {
    let steps = prop::collection::vec(step(), 1..60);
    (0..2_usize, any::<bool>(), prop::bool::weighted(0.7), steps)
        .prop_map(|(name, fenced, shared, steps)| History { name, fenced, shared, steps })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Again),
        6 => (acquirer(), acquire()).prop_map(|(who, verb)| Step::Ours(who, verb)),
        9 => (0..6_usize, verb()).prop_map(|(back, verb)| Step::Ours(Who::Known(back), verb)),
        4 => pass().prop_map(Step::Pass),
        6 => (0..3_u8, prop::bool::weighted(0.6), their())
            .prop_map(|(thread, reads, verb)| Step::Theirs { thread, reads, verb }),
    ]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

fn acquire() -> impl Strategy<Value = Verb> {
    (prop::bool::weighted(0.6), lease()).prop_map(|(reads, ttl)| Verb::Take { reads, ttl })
}

fn verb() -> impl Strategy<Value = Verb> {
    let cooldown = prop_oneof![4 => Just(Duration::ZERO), 1 => lease()];
    let describes = prop::option::weighted(0.3, 0..9_u32);
    prop_oneof![
        1 => acquire(),
        2 => (0..6_usize, lease(), rarely())
            .prop_map(|(from, ttl, other_mode)| Verb::Adopt { from, ttl, other_mode }),
        6 => (cooldown, any::<bool>())
            .prop_map(|(cooldown, closes)| Verb::End { cooldown, closes }),
        5 => (ttl(), describes).prop_map(|(ttl, describes)| Verb::Keep { ttl, describes }),
        2 => any::<bool>().prop_map(|force| Verb::Revoke { force }),
    ]
}

fn their() -> impl Strategy<Value = Their> {
    prop_oneof![
        1 => Just(Their::Force),
        6 => prop_oneof![Just(300), Just(5_000), Just(30_000)]
            .prop_map(|lease_ms| Their::Lock { lease_ms }),
        2 => Just(Their::Renew),
        5 => Just(Their::Unlock),
    ]
}

/// The ttl of a renewal, which may be longer.
fn ttl() -> impl Strategy<Value = Duration> {
    prop_oneof![4 => lease(), 1 => Just(Duration::from_mins(5))]
}
