//! Names that are held back: a transaction under the previous holder's fence is still open.

use super::*;

/// A bench whose lock was held, with client 2 in the queue. The lock is held back from now on.
fn waited_for() -> Bench {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.rules = bench.rules.with_held_back(true);
    bench
}

/// Asserts that nobody has got a token since this one.
fn assert_no_token_after(bench: &Bench, last_token_us: u64) {
    assert_eq!(bench.record.last_token_us, last_token_us);
}

#[test]
fn a_release_ends_the_hold_and_hands_on_to_nobody() {
    let mut bench = waited_for();
    let last = bench.record.last_token_us;
    assert_eq!(bench.release(id(1, 1)), Reply::Released);
    assert!(bench.holders().is_empty() && bench.told().is_empty());
    assert_no_token_after(&bench, last);
    let Reply::Queued(place) = bench.poll(id(2, 1)) else { panic!("it waits") };
    assert_eq!((place.ahead, place.retry_after), (0, HELD_BACK_INTERVAL));
    assert_no_token_after(&bench, last);
    bench.rules = bench.rules.with_held_back(false);
    assert!(granted(bench.poll(id(2, 1))).token.micros() > last);
}

#[test]
fn who_tries_is_told_to_come_again_soon_and_who_waits_joins() {
    let mut bench = waited_for();
    bench.release(id(1, 1));
    let busy = Reply::Busy { retry_after: HELD_BACK_INTERVAL };
    assert_eq!(bench.try_acquire(id(3, 1), Mode::Exclusive), busy);
    assert_eq!(bench.try_acquire(id(3, 2), Mode::Shared), busy);
    assert!(matches!(bench.acquire(id(4, 1), Mode::Exclusive), Reply::Queued(_)));
    let mut free = Bench::new();
    free.rules = free.rules.with_held_back(true);
    assert_eq!(free.try_acquire(id(3, 1), Mode::Exclusive), busy, "a name that is free");
    assert_eq!(free.record.last_token_us, 0);
}

#[test]
fn a_lapsed_hold_ends_and_its_holder_may_renew_until_then() {
    let mut bench = waited_for();
    bench.pass(seconds(20));
    assert!(matches!(bench.renew(id(1, 1), TTL), Reply::Granted(_)));
    bench.pass(TTL + seconds(1));
    let last = bench.record.last_token_us;
    assert!(matches!(bench.renew(id(1, 1), TTL), Reply::NotHeld { .. }));
    assert!(bench.holders().is_empty());
    assert_no_token_after(&bench, last);
}

#[test]
fn nobody_adopts_a_lease_or_takes_one_back() {
    let mut bench = waited_for();
    let last = bench.record.last_token_us;
    let busy = Reply::Busy { retry_after: HELD_BACK_INTERVAL };
    let adopt = bench.adoption(id(3, 1), id(1, 1));
    assert_eq!(bench.act(&Action::Adopt(adopt.clone())), busy);
    assert_eq!(bench.holders(), [id(1, 1)]);
    let mut forgotten = Bench::new();
    forgotten.rules = forgotten.rules.with_held_back(true);
    let token = FencingToken::from_micros(WALL_US + START_US);
    let reclaim = Reclaim::new(token, Acquire::new(id(1, 1), Mode::Exclusive, TTL));
    assert_eq!(forgotten.act(&Action::Reclaim(reclaim)), busy);
    assert!(forgotten.holders().is_empty());
    bench.rules = bench.rules.with_held_back(false);
    assert!(granted(bench.act(&Action::Adopt(adopt))).token.micros() > last);
}
