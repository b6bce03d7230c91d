//! The events of a random history.

use proptest::prelude::*;

use super::*;

/// The next event. Its numbers select among the present holders, waiters and so on, so that any
/// number can be shrunk.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Acquire { client: u8, mode: Mode, ttl_ms: u64, wait: bool, late_copies: u8, ballot: Ballot },
    Adopt { hold: usize, client: u8, late_copies: u8, ballot: Ballot },
    Arrive { copy: usize },
    Back { ms: u64 },
    Bury { client: u8 },
    Cancel { attempt: usize },
    Commit { attempt: usize, ahead_us: u64 },
    Describe { attempt: usize, pid: u32 },
    Inspect,
    Pass { ms: u64 },
    Poll { attempt: usize },
    Reclaim { attempt: usize, late_copies: u8 },
    Release { attempt: usize, cooldown_ms: u64 },
    Renew { attempt: usize, ttl_ms: u64 },
    Revoke { hold: usize, force: bool },
}

/// A token time that a caller proposes, as a distance from the store's clock.
pub(super) type Ballot = Option<i64>;

fn ballot() -> impl Strategy<Value = Ballot> {
    prop::option::weighted(0.3, prop_oneof![-11_000_000_i64..11_000_000, -2_i64..3])
}

fn lock_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)]
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        9 => lock_mode(),
        3 => (1..=3_u32).prop_map(|count| permits(count, 3)),
        1 => (1..=2_u32).prop_map(|count| permits(count, 2)),
    ]
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let ttl = || prop_oneof![Just(100_u64), Just(1_000), Just(30_000)];
    let span =
        prop_oneof![Just(1_u64), Just(90), Just(600), Just(1_000), Just(2_000), Just(31_000)];
    let who = 0..24_usize;
    prop_oneof![
        10 => (0..5_u8, any_mode(), ttl(), any::<bool>(), 0..3_u8, ballot()).prop_map(
            |(client, mode, ttl_ms, wait, late_copies, ballot)| {
                Event::Acquire { client, mode, ttl_ms, wait, late_copies, ballot }
            }
        ),
        3 => (who.clone(), 0..5_u8, 0..3_u8, ballot()).prop_map(
            |(hold, client, late_copies, ballot)| {
                Event::Adopt { hold, client, late_copies, ballot }
            }
        ),
        4 => who.clone().prop_map(|copy| Event::Arrive { copy }),
        1 => (1..100_000_u64).prop_map(|ms| Event::Back { ms }),
        1 => (0..5_u8).prop_map(|client| Event::Bury { client }),
        3 => who.clone().prop_map(|attempt| Event::Cancel { attempt }),
        3 => (who.clone(), prop_oneof![1..4_u64, 1..11_000_000_u64])
            .prop_map(|(attempt, ahead_us)| Event::Commit { attempt, ahead_us }),
        1 => (who.clone(), 1..3_u32)
            .prop_map(|(attempt, pid)| Event::Describe { attempt, pid }),
        1 => Just(Event::Inspect),
        8 => span.prop_map(|ms| Event::Pass { ms }),
        6 => who.clone().prop_map(|attempt| Event::Poll { attempt }),
        3 => (who.clone(), 0..2_u8)
            .prop_map(|(attempt, late_copies)| Event::Reclaim { attempt, late_copies }),
        5 => (who.clone(), prop_oneof![4 => Just(0_u64), 1 => Just(1_500)])
            .prop_map(|(attempt, cooldown_ms)| Event::Release { attempt, cooldown_ms }),
        4 => (who.clone(), ttl()).prop_map(|(attempt, ttl_ms)| Event::Renew { attempt, ttl_ms }),
        2 => (who, any::<bool>()).prop_map(|(hold, force)| Event::Revoke { hold, force }),
    ]
}
