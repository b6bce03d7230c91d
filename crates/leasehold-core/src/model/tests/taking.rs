//! Acquire, wait, hand-over and claim.

use super::*;

#[test]
fn a_waiter_is_told_its_place_and_when_to_ask_again() {
    let mut bench = Bench::held();
    bench.pass(TTL - Duration::from_millis(300));
    let head = bench.wait(id(2, 1), Mode::Exclusive);
    assert_eq!((head.ahead, head.retry_after), (0, Duration::from_millis(300)));
    let second = bench.wait(id(3, 1), Mode::Exclusive);
    assert_eq!((second.ahead, second.retry_after), (1, POLL_INTERVAL));
}

#[test]
fn a_hand_over_must_be_confirmed_within_the_claim_window_or_the_ttl_if_that_is_less() {
    for (ttl, window) in [(TTL, CLAIM_WINDOW), (seconds(1), seconds(1))] {
        let mut bench = Bench::held();
        let request = Acquire { ttl, ..bench.request(id(2, 1), Mode::Exclusive) };
        bench.act(&Action::Acquire(request));
        bench.release(id(1, 1));
        let deadline_us = bench.hold(id(2, 1)).unwrap().deadline_us;
        assert_eq!(deadline_us, START_US + micros(window));
    }
}

#[test]
fn a_renewal_and_a_copy_of_the_acquire_confirm_a_grant_too() {
    for by_renewal in [true, false] {
        let mut bench = Bench::held();
        bench.wait(id(2, 1), Mode::Exclusive);
        bench.release(id(1, 1));
        let reply = match by_renewal {
            true => bench.renew(id(2, 1), TTL),
            false => bench.acquire(id(2, 1), Mode::Exclusive),
        };
        assert_eq!(granted(reply).deadline_us, START_US + micros(TTL));
    }
}

#[test]
fn a_head_that_polls_a_lapsed_lock_gets_it_confirmed_and_without_a_message() {
    let mut bench = Bench::held();
    bench.pass(TTL - Duration::from_millis(1));
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.pass(Duration::from_millis(1));
    let grant = granted(bench.poll(id(2, 1)));
    assert_eq!(grant.deadline_us, bench.now_us + micros(TTL));
    assert_eq!(bench.messages, []);
}

#[test]
fn a_newcomer_does_not_overtake_who_waits() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.pass(TTL);
    granted(bench.poll(id(2, 1)));
    bench.wait(id(3, 1), Mode::Exclusive);
    bench.release(id(2, 1));
    let reply = bench.try_acquire(id(4, 1), Mode::Exclusive);
    assert_eq!(reply, Reply::Busy { retry_after: CLAIM_WINDOW });
    assert_eq!(bench.holders(), [id(3, 1)]);
}

#[test]
fn tokens_grow_with_every_grant_also_while_the_wall_clock_was_never_set() {
    let mut record = Record::default();
    let mut take = |attempt: u64| {
        let bench = Bench::new();
        let request = bench.request(id(1, attempt), Mode::Shared);
        let now = Now { lease_us: bench.now_us, token_us: attempt };
        let outcome = step(&mut record, now, Rules::new(), &Action::Acquire(request));
        granted(outcome.reply).token
    };
    assert!(take(1) < take(2));
}

#[test]
fn tokens_grow_with_every_grant_also_when_the_wall_clock_goes_back() {
    let mut bench = Bench::new();
    let mut last = None;
    for attempt in 1..20 {
        let token = bench.take(id(1, attempt), Mode::Exclusive).token;
        assert!(Some(token) > last);
        last = Some(token);
        bench.release(id(1, attempt));
        bench.now_us -= 1_000_000;
    }
}

#[test]
fn a_full_queue_takes_nobody_else() {
    let mut bench = Bench::held();
    for client in 0..MAX_WAITING as u64 {
        let waiting = Waiting {
            id: id(u128::from(client) + 10, 1),
            weight: 1,
            capacity: LOCK_CAPACITY,
            ttl_us: micros(TTL),
            since_us: START_US,
            nonce: 0,
            info: HolderInfo::default(),
        };
        bench.record.join(waiting, START_US);
    }
    let full = Reply::Refused(Refusal::QueueFull);
    assert_eq!(bench.acquire(id(2, 1), Mode::Exclusive), full);
    assert_eq!(bench.record.queue.len(), MAX_WAITING);
}

#[test]
fn inspecting_shows_no_hold_that_has_ended_and_still_as_many_as_asked_for() {
    let mut bench = Bench::new();
    for client in 1..=3 {
        bench.take(id(client, 1), Mode::Shared);
        bench.pass(seconds(10));
    }
    for _ in 0..2 {
        let Reply::Status(status) = bench.act(&Action::Inspect { limit: 1 }) else { panic!() };
        assert_eq!(status.holders.iter().map(|h| h.id).collect::<Vec<_>>(), [id(2, 1)]);
        bench.pass(seconds(1));
    }
}
