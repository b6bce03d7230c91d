//! Acquire, wait, hand-over and claim.

use super::*;

#[test]
fn a_free_lock_is_granted_at_once() {
    let mut bench = Bench::new();
    let grant = bench.take(id(1, 1), Mode::Exclusive);
    assert_eq!(grant.deadline_us, START_US + micros(TTL));
    assert!(!grant.contended);
    assert_eq!(bench.messages, [], "the caller needs no message");
}

#[test]
fn a_copy_of_an_acquire_gets_the_same_grant_again() {
    let mut bench = Bench::new();
    let first = bench.take(id(1, 1), Mode::Exclusive);
    bench.pass(seconds(1));
    let second = bench.take(id(1, 1), Mode::Exclusive);
    assert_eq!(second.token, first.token);
    assert_eq!(second.deadline_us, first.deadline_us + 1_000_000);
    assert_eq!(bench.record.holds.len(), 1);
}

#[test]
fn a_second_attempt_of_the_same_client_is_somebody_else() {
    let mut bench = Bench::held();
    assert_eq!(bench.try_acquire(id(1, 2), Mode::Exclusive), Reply::Busy { retry_after: TTL });
}

#[test]
fn busy_leaves_no_trace() {
    let mut bench = Bench::held();
    let before = bench.record.clone();
    bench.pass(seconds(10));
    let retry_after = TTL - seconds(10);
    assert_eq!(bench.try_acquire(id(2, 1), Mode::Exclusive), Reply::Busy { retry_after });
    assert_eq!(bench.record, before);
}

#[test]
fn a_copy_of_a_waiting_acquire_joins_the_queue_once() {
    let mut bench = Bench::held();
    let first = bench.wait(id(2, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Exclusive);
    assert_eq!(bench.wait(id(2, 1), Mode::Exclusive), first);
    assert_eq!(bench.record.queue.len(), 2);
    assert_eq!(bench.record.clients[&ClientId(2)].waiting, 1);
}

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
fn a_release_hands_over_to_the_first_waiter_in_the_same_step() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Exclusive);
    assert_eq!(bench.release(id(1, 1)), Reply::Released);
    assert_eq!(bench.holders(), [id(2, 1)]);
    let hold = bench.hold(id(2, 1)).unwrap().clone();
    assert_eq!(hold.state, HoldState::Unclaimed);
    let told = Message::Granted {
        attempt: 1,
        nonce: 1001,
        token: FencingToken::from_micros(hold.token_us),
        now_us: START_US,
        deadline_us: START_US + micros(CLAIM_WINDOW),
    };
    assert_eq!(bench.messages, [(ClientId(2), told)], "one message, to the one who was granted");
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
fn a_poll_confirms_a_grant_for_the_whole_ttl() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.release(id(1, 1));
    bench.pass(seconds(1));
    let grant = granted(bench.poll(id(2, 1)));
    assert_eq!(grant.deadline_us, bench.now_us + micros(TTL));
    assert_eq!(bench.hold(id(2, 1)).unwrap().state, HoldState::Claimed);
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
fn a_grant_that_nobody_confirms_goes_to_the_next() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Exclusive);
    bench.release(id(1, 1));
    bench.pass(CLAIM_WINDOW);
    granted(bench.poll(id(3, 1)));
    assert_eq!(bench.poll(id(2, 1)), Reply::Gone, "it joins again with a new attempt");
    assert_eq!(bench.acquire(id(2, 1), Mode::Exclusive), Reply::Stale);
}

#[test]
fn the_poll_of_any_waiter_hands_a_lapsed_lock_to_the_head() {
    let mut bench = Bench::held();
    bench.pass(TTL - Duration::from_millis(1));
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Exclusive);
    bench.pass(Duration::from_millis(1));
    assert!(matches!(bench.poll(id(3, 1)), Reply::Queued(Place { ahead: 0, .. })));
    assert_eq!(bench.told(), [id(2, 1)]);
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
fn a_poll_never_joins_a_queue() {
    let mut bench = Bench::held();
    assert_eq!(bench.poll(id(2, 1)), Reply::Gone);
    assert!(bench.record.queue.is_empty());
}

#[test]
fn an_acquire_that_comes_after_its_time_does_nothing() {
    let mut bench = Bench::new();
    let request = bench.request(id(1, 1), Mode::Exclusive);
    bench.pass(NOT_AFTER);
    bench.now_us += 1;
    assert_eq!(bench.act(&Action::Acquire(request.clone())), Reply::Late);
    assert_eq!(bench.record, Record::default());
    bench.now_us -= 1;
    granted(bench.act(&Action::Acquire(request)));
}

#[test]
fn a_name_in_use_as_something_else_is_refused_and_unchanged() {
    let mut bench = Bench::held();
    let before = bench.record.clone();
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: LOCK_CAPACITY });
    assert_eq!(bench.acquire(id(2, 1), permits(1, 3)), mismatch);
    assert_eq!(bench.record, before);
    bench.release(id(1, 1));
    bench.take(id(2, 2), permits(1, 3));
    let before = bench.record.clone();
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 3 });
    for other in [Mode::Exclusive, Mode::Shared] {
        assert_eq!(bench.acquire(id(3, 1), other), mismatch);
    }
    assert_eq!(bench.try_acquire(id(3, 1), permits(1, 4)), mismatch);
    assert_eq!(bench.record, before);
}

#[test]
fn more_permits_than_there_are_is_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.acquire(id(1, 1), permits(4, 3)), Reply::Refused(Refusal::Weight));
    assert_eq!(bench.record, Record::default());
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
fn inspecting_changes_nothing_and_shows_everyone() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Shared);
    bench.wait(id(3, 1), Mode::Exclusive);
    bench.pass(seconds(4));
    let before = bench.record.clone();
    let Reply::Status(status) = bench.act(&Action::Inspect { limit: 10 }) else { panic!() };
    assert_eq!(bench.record, before, "not even the dead waiters are gone");
    let [holder] = &status.holders[..] else { panic!("{status:?}") };
    assert_eq!((holder.id, holder.mode, holder.held_for), (id(1, 1), Mode::Exclusive, seconds(4)));
    assert_eq!((holder.ttl_left, Some(holder.token)), (TTL - seconds(4), status.last_token));
    let waiters: Vec<_> = status.waiters.iter().map(|w| (w.id, w.mode, w.position)).collect();
    assert_eq!(waiters, [(id(2, 1), Mode::Shared, 1), (id(3, 1), Mode::Exclusive, 2)]);
    assert_eq!(status.waiting, 2);
    let Reply::Status(status) = bench.act(&Action::Inspect { limit: 1 }) else { panic!() };
    assert_eq!((status.waiters.len(), status.waiting), (1, 2), "no more than asked for");
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
