//! Requests for another capacity than the one in force, and operators who set the capacity.

use super::*;

/// A bench on which clients, numbered from 1, each hold one permit of a semaphore of `capacity`.
fn held_by(clients: u128, capacity: u32) -> Bench {
    let mut bench = Bench::new();
    for client in 1..=clients {
        bench.take(id(client, 1), permits(1, capacity));
    }
    bench
}

fn set(before: u32) -> Reply {
    Reply::CapacitySet { before: Some(before) }
}

#[test]
fn who_asks_for_another_capacity_waits_until_nobody_holds() {
    for other in [2, 8] {
        let mut bench = held_by(2, 4);
        let place = bench.wait(id(10, 1), permits(2, other));
        assert_eq!((place.ahead, place.other_capacity), (0, Some(4)));
        bench.release(id(1, 1));
        assert_eq!(bench.holders(), [id(2, 1)]);
        bench.release(id(2, 1));
        assert_eq!(bench.told(), [id(10, 1)]);
        assert_eq!(bench.hold(id(10, 1)).unwrap().mode(bench.record.capacity), permits(2, other));
    }
}

#[test]
fn nobody_overtakes_who_waits_for_another_capacity_and_then_it_binds() {
    let mut bench = held_by(1, 4);
    bench.wait(id(10, 1), permits(1, 8));
    bench.wait(id(11, 1), permits(1, 4));
    bench.wait(id(12, 1), permits(1, 8));
    bench.release(id(1, 1));
    assert_eq!(bench.holders(), [id(10, 1)], "the next asks for four again");
    let Reply::Queued(place) = bench.poll(id(11, 1)) else { panic!() };
    assert_eq!(place.other_capacity, Some(8));
    bench.release(id(10, 1));
    assert_eq!(bench.holders(), [id(11, 1)]);
    bench.release(id(11, 1));
    assert_eq!(bench.holders(), [id(12, 1)]);
}

#[test]
fn a_try_with_another_capacity_is_refused_and_leaves_no_trace() {
    let mut bench = held_by(1, 4);
    let before = bench.record.clone();
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 4 });
    assert_eq!(bench.try_acquire(id(10, 1), permits(1, 8)), mismatch);
    assert_eq!(bench.record, before);
}

#[test]
fn who_asked_for_another_capacity_and_leaves_lets_the_next_in() {
    let mut bench = held_by(1, 4);
    bench.wait(id(10, 1), permits(1, 8));
    bench.wait(id(11, 1), permits(1, 4));
    bench.cancel(id(10, 1));
    assert_eq!(bench.holders(), [id(1, 1), id(11, 1)]);
}

#[test]
fn a_capacity_that_is_raised_grants_in_the_same_step() {
    let mut bench = held_by(2, 2);
    bench.wait(id(10, 1), permits(1, 2));
    bench.wait(id(11, 1), permits(1, 2));
    assert_eq!(bench.set_capacity(3), set(2));
    assert_eq!(bench.told(), [id(10, 1)]);
    assert_eq!(bench.holders().len(), 3);
}

#[test]
fn a_capacity_that_is_lowered_ends_no_hold_and_grants_nothing_until_it_fits() {
    let mut bench = held_by(4, 4);
    assert_eq!(bench.set_capacity(2), set(4));
    assert_eq!(bench.holders().len(), 4);
    granted(bench.renew(id(1, 1), TTL));
    bench.wait(id(10, 1), permits(1, 4));
    for client in [1, 2] {
        bench.release(id(client, 1));
        assert_eq!(bench.told(), []);
    }
    bench.release(id(3, 1));
    assert_eq!(bench.holders(), [id(4, 1), id(10, 1)]);
}

#[test]
fn requests_for_the_old_capacity_and_for_the_new_one_share_what_was_set() {
    let mut bench = held_by(2, 2);
    assert_eq!(bench.set_capacity(4), set(2));
    bench.take(id(10, 1), permits(1, 4));
    bench.take(id(11, 1), permits(1, 2));
    let place = bench.wait(id(12, 1), permits(1, 2));
    assert_eq!(place.other_capacity, None, "it waits as for busy");
    let place = bench.wait(id(13, 1), permits(1, 3));
    assert_eq!(place.other_capacity, Some(4));
}

#[test]
fn a_waiter_that_asked_for_what_is_set_is_granted_at_once() {
    let mut bench = held_by(4, 4);
    bench.wait(id(10, 1), permits(1, 8));
    assert_eq!(bench.set_capacity(8), set(4));
    assert_eq!(bench.told(), [id(10, 1)]);
}

#[test]
fn what_is_set_outlives_a_moment_in_which_nobody_holds_while_others_wait() {
    let mut bench = held_by(1, 2);
    bench.wait(id(10, 1), permits(2, 2));
    bench.wait(id(11, 1), permits(1, 2));
    bench.set_capacity(3);
    assert_eq!(bench.holders(), [id(1, 1), id(10, 1)]);
    bench.release(id(10, 1));
    bench.release(id(1, 1));
    bench.wait(id(12, 1), permits(3, 3));
    bench.release(id(11, 1));
    assert_eq!(bench.holders(), [id(12, 1)]);
    bench.release(id(12, 1));
    bench.take(id(13, 1), permits(1, 2));
    assert_eq!(bench.record.capacity, 2, "nobody held or waited: it is what is asked for");
}

#[test]
fn a_request_for_more_than_is_left_waits_until_nobody_holds() {
    let mut bench = held_by(1, 4);
    bench.wait(id(10, 1), permits(4, 4));
    bench.set_capacity(2);
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 2 });
    assert_eq!(bench.try_acquire(id(11, 1), permits(3, 4)), mismatch);
    bench.release(id(1, 1));
    assert_eq!(bench.holders(), [id(10, 1)]);
    assert_eq!(bench.record.capacity, 4, "else it would wait for ever");
}

#[test]
fn there_is_no_capacity_to_set_of_a_lock_or_where_nobody_holds_or_waits() {
    let mut bench = Bench::held();
    let before = bench.record.clone();
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: LOCK_CAPACITY });
    assert_eq!(bench.set_capacity(2), mismatch);
    for capacity in [0, LOCK_CAPACITY] {
        assert_eq!(bench.set_capacity(capacity), Reply::Refused(Refusal::Weight));
    }
    assert_eq!(bench.record, before);
    bench.release(id(1, 1));
    assert_eq!(bench.set_capacity(2), Reply::CapacitySet { before: None });
    assert_eq!(Bench::new().set_capacity(2), Reply::CapacitySet { before: None });
}

#[test]
fn a_lease_of_before_is_adopted_and_taken_back_under_the_capacity_that_was_set() {
    let mut bench = held_by(2, 2);
    let adoption = bench.adoption(id(10, 1), id(1, 1));
    let token = FencingToken::from_micros(bench.hold(id(2, 1)).unwrap().token_us);
    bench.set_capacity(3);
    granted(bench.act(&Action::Adopt(adoption)));
    let request = bench.request(id(2, 1), permits(1, 2));
    granted(bench.act(&Action::Reclaim(Reclaim::new(token, 0, request))));
}
