//! Requests for another capacity than the one in force.

use super::*;

/// A bench on which clients, numbered from 1, each hold one permit of a semaphore of `capacity`.
fn held_by(clients: u128, capacity: u32) -> Bench {
    let mut bench = Bench::new();
    for client in 1..=clients {
        bench.take(id(client, 1), permits(1, capacity));
    }
    bench
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
