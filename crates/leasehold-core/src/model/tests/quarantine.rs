//! Stores that may have forgotten holds: they grant nothing new, and holders take their holds back.

use super::*;

fn reclaim(holder: HolderId, token_us: u64) -> Action {
    let request = Acquire::new(holder, Mode::Exclusive, TTL);
    Action::Reclaim(Reclaim::new(FencingToken::from_micros(token_us), request))
}

fn in_quarantine(mut bench: Bench) -> Bench {
    bench.rules = bench.rules.with_in_quarantine(true);
    bench
}

#[test]
fn a_holder_takes_back_what_was_forgotten_and_nobody_else_is_let_in() {
    let mut bench = in_quarantine(Bench::new());
    let busy = Reply::Busy { retry_after: POLL_INTERVAL };
    assert_eq!(bench.try_acquire(id(2, 1), Mode::Exclusive), busy);
    let token_us = WALL_US + START_US;
    let back = granted(bench.act(&reclaim(id(1, 1), token_us)));
    assert_eq!(back.token.micros(), token_us);
    assert_eq!(bench.holders(), [id(1, 1)]);
}

#[test]
fn who_comes_back_too_late_hands_on_to_nobody() {
    let mut bench = Bench::held();
    let last = bench.record.last_token_us;
    bench.wait(id(2, 1), Mode::Exclusive);
    let mut bench = in_quarantine(bench);
    for _ in 1..TTL.as_secs() {
        bench.pass(seconds(1));
        bench.poll(id(2, 1));
    }
    bench.pass(seconds(2));
    // Another forgotten holder finds the earlier queue.
    assert!(matches!(bench.act(&reclaim(id(3, 1), last + 1)), Reply::NotHeld { .. }));
    assert!(bench.holders().is_empty() && bench.told().is_empty());
    let Reply::Queued(place) = bench.poll(id(2, 1)) else { panic!("it waits") };
    assert_eq!((place.ahead, place.retry_after), (0, POLL_INTERVAL));
    assert_eq!(bench.record.last_token_us, last);
    bench.rules = bench.rules.with_in_quarantine(false);
    assert!(granted(bench.poll(id(2, 1))).token.micros() > last);
}
