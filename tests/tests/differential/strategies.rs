//! The strategies that generate and shrink histories.

use std::time::Duration;

use leasehold_core::Mode;
use leasehold_core::model;
use proptest::prelude::*;

use super::history::{NAMES, Named, Other, Step, Verb, Who, micros};

/// Any history.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let scene = prop_oneof![
        600 => step().prop_map(|step| vec![step]),
        5 => readers_that_end(),
    ];
    prop::collection::vec(scene, 1..100).prop_map(|scenes| scenes.concat())
}

/// More readers than one sweep checks, some of which end, and other actions meanwhile.
fn readers_that_end() -> impl Strategy<Value = Vec<Step>> {
    let cooldown = (0u64..3_000_000)
        .prop_map(|us| Verb::Release { cooldown: Duration::from_micros(us), unanswered: false });
    let meanwhile =
        prop::collection::vec((0usize..110, prop_oneof![2 => verb(0), 1 => cooldown]), 1..5);
    (65u8..110, 0u64..97, 900_000u64..4_000_000, meanwhile).prop_map(
        |(size, stride, us, meanwhile)| {
            let crowd = Step::Crowd { name: 0, mode: Mode::Shared, size, stride, wait: false };
            let acts =
                meanwhile.into_iter().map(|(nth, verb)| Step::Act(0, Who::Holder(nth), verb));
            [Step::Delete(0), crowd, Step::Pass(us)].into_iter().chain(acts).collect()
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        400 => act(),
        20 => Just(Step::Again),
        10 => (0u64..200_000_000).prop_map(Step::Back),
        20 => Just(Step::Collect),
        4 => crowd(),
        10 => (0..NAMES.len()).prop_map(Step::Delete),
        1 => Just(Step::FlushScripts), // which takes the server as long as hundreds of others
        120 => pass().prop_map(Step::Pass),
        30 => prop::collection::vec(renewed(), 1..6).prop_map(Step::RenewMany),
    ]
}

fn renewed() -> impl Strategy<Value = (usize, Who, Duration)> {
    (0..NAMES.len(), who(), ttl())
}

fn act() -> impl Strategy<Value = Step> {
    (0..NAMES.len()).prop_flat_map(|name| {
        (Just(name), who(), verb(name)).prop_map(|(name, who, verb)| Step::Act(name, who, verb))
    })
}

/// Enough readers for a bounded sweep, enough waiters for a bounded promotion, enough clients for
/// more tombstones than are kept.
fn crowd() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1u8..40, 65u8..110];
    (0..NAMES.len(), size, 0u64..97, any::<bool>())
        .prop_flat_map(|(name, size, stride, wait)| {
            (Just(name), mode(name), Just(size), Just(stride), Just(wait))
        })
        .prop_map(|(name, mode, size, stride, wait)| Step::Crowd { name, mode, size, stride, wait })
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        4 => (0usize..100).prop_map(Who::Holder),
        6 => (0u8..4).prop_map(Who::New),
        1 => (0u8..80).prop_map(Who::New),
        3 => (0u8..4, 0u64..3).prop_map(|(client, back)| Who::Old(client, back)),
        3 => (0usize..100).prop_map(Who::Waiter),
    ]
}

fn verb(name: usize) -> impl Strategy<Value = Verb> {
    let flag = || prop::bool::weighted(0.3);
    let late = || prop::bool::weighted(0.05);
    let ballot = || prop::option::weighted(0.3, named());
    let acquire = (mode(name), ttl(), prop::bool::weighted(0.7), late(), ballot()).prop_map(
        |(mode, ttl, wait, late, ballot)| Verb::Acquire { mode, ttl, wait, late, ballot },
    );
    let reclaim = (mode(name), named(), ttl(), late())
        .prop_map(|(mode, token, ttl, late)| Verb::Reclaim { mode, token, ttl, late });
    let other = prop_oneof![
        8 => Just(Other::None),
        1 => mode(name).prop_map(Other::Mode),
        3 => prop::option::of(named()).prop_map(Other::Token),
    ];
    let adopt = (0usize..100, other, ttl(), late(), ballot()).prop_map(
        |(from, other, ttl, late, ballot)| Verb::Adopt { from, other, ttl, late, ballot },
    );
    let cooldown = prop_oneof![4 => Just(Duration::ZERO), 1 => ttl()];
    prop_oneof![
        12 => acquire,
        5 => adopt,
        2 => flag().prop_map(|unanswered| Verb::Cancel { unanswered }),
        3 => (named(), ttl()).prop_map(|(token, ttl)| Verb::Commit { token, ttl }),
        2 => any::<u32>().prop_map(|pid| Verb::Describe { pid }),
        1 => (0u32..50).prop_map(|limit| Verb::Inspect { limit }),
        8 => ttl().prop_map(|ttl| Verb::Poll { ttl }),
        5 => reclaim,
        8 => (cooldown, flag())
            .prop_map(|(cooldown, unanswered)| Verb::Release { cooldown, unanswered }),
        5 => ttl().prop_map(|ttl| Verb::Renew { ttl }),
        2 => (flag(), flag())
            .prop_map(|(force, wrong_token)| Verb::Revoke { force, wrong_token }),
    ]
}

/// Token times close to known ones, and around the bounds of what is accepted.
fn named() -> impl Strategy<Value = Named> {
    let lead = micros(model::BALLOT_LEAD) as i64;
    let away = move || {
        prop_oneof![
            4 => -3i64..4,
            1 => -lead..lead,
            2 => lead - 2..lead + 3,
            1 => -lead * 9..-lead,
        ]
    };
    prop_oneof![
        away().prop_map(Named::Clock),
        away().prop_map(Named::Last),
        away().prop_map(Named::Own),
    ]
}

/// Mostly the mode of the name; sometimes another capacity, or more permits than there are.
fn mode(name: usize) -> impl Strategy<Value = Mode> {
    let permits = |count: std::ops::Range<u32>, capacity: std::ops::Range<u32>| {
        (count, capacity).prop_map(|(count, capacity)| Mode::Permits { count, capacity })
    };
    let lock = if NAMES[name] == "permits" { 1 } else { 20 };
    prop_oneof![
        lock => Just(Mode::Exclusive),
        lock => Just(Mode::Shared),
        21 - lock => permits(1..4, 3..4),
        2 => permits(0..6, 1..6),
    ]
}

fn ttl() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        4 => (1u64..3_000_000).prop_map(Duration::from_micros),
        6 => Just(Duration::from_secs(30)),
        1 => Just(Duration::from_hours(24)),
    ]
}

fn pass() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..1_000_000,
        3 => 1_000_000u64..4_000_000,
        1 => 4_000_000u64..400_000_000,
    ]
}
