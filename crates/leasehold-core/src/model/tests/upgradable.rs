//! Upgradable readers: such a reader can hold together with plain readers, and can change its mode
//! later.

use super::*;

/// A bench on which client 1 is an upgradable reader, together with the plain reader 2.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Upgradable);
    bench.take(id(2, 1), Mode::Shared);
    bench
}

#[test]
fn one_upgradable_reader_holds_beside_readers() {
    let mut bench = bench();
    bench.take(id(3, 1), Mode::Shared);
    for mode in [Mode::Upgradable, Mode::Exclusive] {
        let Reply::Busy { .. } = bench.try_acquire(id(4, 1), mode) else { panic!("{mode:?}") };
    }
    bench.release(id(1, 1));
    bench.take(id(4, 2), Mode::Upgradable);
    bench.release(id(4, 2));
    bench.release(id(2, 1));
    bench.release(id(3, 1));
    bench.take(id(4, 3), Mode::Exclusive);
    let Reply::Busy { .. } = bench.try_acquire(id(1, 2), Mode::Upgradable) else { panic!() };
}

#[test]
fn upgradable_readers_are_served_in_order_and_readers_wait_behind_one_that_waits() {
    let mut bench = bench();
    bench.wait(id(3, 1), Mode::Upgradable);
    bench.wait(id(4, 1), Mode::Shared);
    bench.wait(id(5, 1), Mode::Upgradable);
    bench.release(id(1, 1));
    assert_eq!(bench.told(), [id(3, 1), id(4, 1)]);
    bench.release(id(3, 1));
    assert_eq!(bench.told(), [id(5, 1)]);
}

#[test]
fn an_upgrade_of_an_upgradable_reader_waits_for_readers_and_keeps_new_ones_out() {
    let mut bench = bench();
    let reader = FencingToken::from_micros(bench.hold(id(1, 1)).unwrap().token_us);
    let Reply::Busy { .. } = bench.change(id(1, 1), Mode::Exclusive) else { panic!() };
    bench.wait(id(3, 1), Mode::Shared);
    bench.release(id(2, 1));
    assert_eq!(bench.told(), [id(1, 1)]);
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, LOCK_CAPACITY);
    assert!(FencingToken::from_micros(bench.record.last_token_us) > reader);
}

#[test]
fn a_reader_beside_an_upgradable_one_is_told_of_the_deadlock_and_that_one_never() {
    let mut bench = bench();
    bench.take(id(3, 1), Mode::Shared);
    assert_eq!(bench.change(id(2, 1), Mode::Exclusive), Reply::WouldDeadlock);
    assert_eq!(bench.record.upgrading, None, "nothing of it is left");
    bench.take(id(4, 1), Mode::Shared);
    let Reply::Busy { .. } = bench.change(id(1, 1), Mode::Exclusive) else { panic!() };
    assert_eq!(bench.change(id(3, 1), Mode::Exclusive), Reply::WouldDeadlock);
    for reader in [id(2, 1), id(3, 1), id(4, 1)] {
        bench.release(reader);
    }
    assert_eq!(bench.told(), [id(1, 1)]);
}

#[test]
fn nobody_becomes_upgradable_while_a_reader_waits_to_become_the_writer() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    let Reply::Busy { .. } = bench.change(id(1, 1), Mode::Exclusive) else { panic!() };
    let Reply::Busy { .. } = bench.try_acquire(id(3, 1), Mode::Upgradable) else { panic!() };
    let refused = Reply::Refused(Refusal::Weight);
    assert_eq!(bench.change(id(2, 1), Mode::Upgradable), refused, "nor a reader that is there");
    bench.wait(id(3, 2), Mode::Upgradable);
    granted(bench.change(id(1, 1), Mode::Shared));
    assert_eq!(bench.told(), [id(3, 2)]);
}

#[test]
fn an_upgrade_that_is_taken_back_leaves_the_upgradable_reader() {
    let mut bench = bench();
    let Reply::Busy { .. } = bench.change_by(id(1, 1), Mode::Exclusive, 1) else { panic!() };
    bench.wait(id(3, 1), Mode::Shared);
    granted(bench.change_by(id(1, 1), Mode::Upgradable, 1));
    assert_eq!(bench.told(), [id(3, 1)], "readers are let in again");
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, UPGRADABLE_WEIGHT);
    assert_eq!(bench.change_by(id(1, 1), Mode::Exclusive, 1), Reply::Stale, "a copy comes late");
    bench.release(id(2, 1));
    bench.release(id(3, 1));
    granted(bench.change_by(id(1, 1), Mode::Exclusive, 2));
    granted(bench.change_by(id(1, 1), Mode::Upgradable, 2));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, UPGRADABLE_WEIGHT, "also once it was granted");
}

#[test]
fn a_writer_becomes_upgradable_and_that_one_a_reader_and_each_lets_in_what_fits() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Upgradable);
    granted(bench.change(id(1, 1), Mode::Exclusive));
    bench.wait(id(2, 1), Mode::Shared);
    bench.wait(id(3, 1), Mode::Upgradable);
    granted(bench.change(id(1, 1), Mode::Upgradable));
    assert_eq!(bench.told(), [id(2, 1)]);
    granted(bench.change(id(1, 1), Mode::Shared));
    assert_eq!(bench.told(), [id(3, 1)]);
    assert_eq!(bench.change(id(1, 1), Mode::Upgradable), Reply::Refused(Refusal::Weight));
}

#[test]
fn a_holder_that_believes_to_be_upgradable_is_that_from_its_next_renewal_on_and_no_more() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Upgradable);
    granted(bench.change_by(id(1, 1), Mode::Exclusive, 1));
    granted(bench.believe(id(1, 1), Mode::Upgradable, 1));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, UPGRADABLE_WEIGHT);
    granted(bench.believe(id(1, 1), Mode::Shared, 2));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, 1);
    granted(bench.believe(id(1, 1), Mode::Upgradable, 1));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, 1, "late, so it only prolongs");
    let Reply::NotHeld { .. } = bench.believe(id(1, 1), Mode::Upgradable, 2) else { panic!() };
}

#[test]
fn an_upgradable_reader_that_ends_by_time_lets_the_next_in() {
    let mut bench = bench();
    bench.change(id(1, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Upgradable);
    bench.pass(TTL / 2);
    granted(bench.renew(id(2, 1), TTL));
    bench.pass(TTL / 2);
    bench.take(id(4, 1), Mode::Upgradable);
    assert_eq!(bench.holders(), [id(2, 1), id(4, 1)], "the one that is silent is skipped");
}

#[test]
fn an_upgradable_reader_is_adopted_and_reclaimed_as_one() {
    let mut bench = bench();
    let adopt = bench.adoption(id(3, 1), id(1, 1));
    assert_eq!(adopt.request.mode, Mode::Upgradable);
    let token = granted(bench.act(&Action::Adopt(adopt))).token;
    let Reply::Busy { .. } = bench.try_acquire(id(4, 1), Mode::Upgradable) else { panic!() };
    bench.record = Record::default();
    let mut reclaim = Reclaim::new(token, 0, bench.request(id(3, 1), Mode::Upgradable));
    granted(bench.act(&Action::Reclaim(reclaim.clone())));
    reclaim.request.id = id(5, 1);
    let Reply::NotHeld { .. } = bench.act(&Action::Reclaim(reclaim)) else { panic!("it is one") };
}
