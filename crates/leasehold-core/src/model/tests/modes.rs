//! Readers, writers, permits, and the way from one mode to another.

use super::*;

#[test]
fn a_reader_does_not_overtake_a_waiting_writer() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Shared);
    bench.release(id(1, 1));
    assert_eq!(bench.told(), [id(2, 1)]);
}

#[test]
fn no_more_readers_are_granted_in_one_step_than_the_bound_and_the_rest_in_the_next() {
    let mut bench = Bench::held();
    for client in 2..42 {
        bench.wait(id(client, 1), Mode::Shared);
    }
    bench.release(id(1, 1));
    assert_eq!((bench.told().len(), bench.more), (GRANT_BOUND as usize, true));
    bench.poll(id(2, 1));
    assert_eq!((bench.told().len(), bench.more), (GRANT_BOUND as usize, true));
    bench.poll(id(2, 1));
    assert_eq!((bench.told().len(), bench.more), (8, false));
    assert_eq!(bench.record.holds.len(), 40);
}

#[test]
fn permits_that_are_left_over_wait_with_the_head() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), permits(3, 5));
    bench.wait(id(2, 1), permits(4, 5));
    bench.wait(id(3, 1), permits(1, 5));
    bench.release(id(1, 1));
    assert_eq!(bench.told(), [id(2, 1), id(3, 1)]);
}

#[test]
fn a_lone_reader_becomes_the_writer_with_a_new_token_and_the_old_deadline() {
    let mut bench = Bench::new();
    let reader = bench.take(id(1, 1), Mode::Shared);
    bench.pass(seconds(1));
    let writer = granted(bench.change(id(1, 1), Mode::Exclusive));
    assert!(writer.token > reader.token);
    assert_eq!(writer.deadline_us, reader.deadline_us);
    let copy = granted(bench.change_by(id(1, 1), Mode::Exclusive, 1));
    assert_eq!(copy, writer, "a copy changes nothing");
    let Reply::Busy { .. } = bench.try_acquire(id(2, 1), Mode::Shared) else { panic!() };
}

#[test]
fn a_reader_that_waits_to_become_the_writer_is_promoted_by_the_last_other_readers_release() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    let Reply::Busy { .. } = bench.change(id(1, 1), Mode::Exclusive) else { panic!() };
    bench.wait(id(3, 1), Mode::Shared);
    bench.release(id(2, 1));
    assert_eq!(bench.told(), [id(1, 1)]);
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, LOCK_CAPACITY);
    assert_eq!(bench.holders(), [id(1, 1)]);
}

#[test]
fn nobody_is_admitted_while_a_reader_waits_to_become_the_writer() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    bench.change(id(1, 1), Mode::Exclusive);
    let Reply::Busy { .. } = bench.try_acquire(id(3, 1), Mode::Shared) else { panic!() };
    bench.wait(id(3, 2), Mode::Shared);
}

#[test]
fn a_second_reader_that_wants_to_become_the_writer_is_told_of_the_deadlock() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    bench.change(id(1, 1), Mode::Exclusive);
    assert_eq!(bench.change(id(2, 1), Mode::Exclusive), Reply::WouldDeadlock);
    assert!(bench.hold(id(2, 1)).is_some(), "it still reads");
    bench.release(id(2, 1));
    assert_eq!(bench.told(), [id(1, 1)]);
}

#[test]
fn a_reader_that_gives_up_becoming_the_writer_lets_the_others_in() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    bench.change(id(1, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Shared);
    granted(bench.change(id(1, 1), Mode::Shared));
    assert_eq!(bench.told(), [id(3, 1)]);
}

#[test]
fn a_reader_that_dies_while_it_waits_to_become_the_writer_blocks_nobody_for_longer() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.pass(seconds(1));
    bench.take(id(2, 1), Mode::Shared);
    bench.change(id(1, 1), Mode::Exclusive);
    bench.pass(TTL - seconds(1));
    bench.take(id(3, 1), Mode::Shared);
    assert_eq!(bench.record.upgrading, None);
}

#[test]
fn a_cooldown_of_a_reader_ends_its_own_wish_to_write_and_nobody_elses() {
    for (reader, left) in [(id(1, 1), None), (id(2, 1), Some(id(1, 1)))] {
        let mut bench = Bench::new();
        bench.take(id(1, 1), Mode::Shared);
        bench.take(id(2, 1), Mode::Shared);
        bench.change(id(1, 1), Mode::Exclusive);
        bench.act(&Action::Release { id: reader, cooldown: seconds(5), unanswered: false });
        assert_eq!(bench.record.upgrading, left);
    }
}

#[test]
fn a_reader_that_was_revoked_does_not_become_the_writer() {
    let mut bench = Bench::new();
    let token = bench.take(id(1, 1), Mode::Shared).token;
    bench.take(id(2, 1), Mode::Shared);
    bench.change(id(1, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Shared);
    bench.revoke(id(1, 1), token, false);
    assert_eq!(bench.told(), [id(3, 1)], "and readers are let in again");
    bench.release(id(2, 1));
    bench.release(id(3, 1));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, 1);
    assert_eq!(bench.revoke(id(1, 1), token, true), Reply::Revoked(true), "it has one token still");
}

#[test]
fn a_writer_that_becomes_a_reader_lets_the_waiting_readers_in_at_once() {
    let mut bench = Bench::held();
    let token = FencingToken::from_micros(bench.record.last_token_us);
    bench.wait(id(2, 1), Mode::Shared);
    bench.wait(id(3, 1), Mode::Exclusive);
    let grant = granted(bench.change(id(1, 1), Mode::Shared));
    assert_eq!((grant.token, grant.contended), (token, true));
    assert_eq!(bench.told(), [id(2, 1)]);
}

#[test]
fn only_a_live_hold_of_a_lock_changes_its_mode() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), permits(1, 3));
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 3 });
    assert_eq!(bench.change(id(1, 1), Mode::Exclusive), mismatch);
    bench.release(id(1, 1));
    bench.take(id(1, 2), Mode::Shared);
    assert_eq!(bench.change(id(1, 2), permits(1, 3)), Reply::Refused(Refusal::Weight));
    bench.pass(TTL);
    let Reply::NotHeld { .. } = bench.change(id(1, 2), Mode::Exclusive) else { panic!() };
    let token = bench.take(id(1, 3), Mode::Shared).token;
    bench.revoke(id(1, 3), token, false);
    let Reply::NotHeld { .. } = bench.change(id(1, 3), Mode::Exclusive) else { panic!() };
}

#[test]
fn a_wish_that_was_given_up_and_arrives_late_touches_no_later_upgrade() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    let Reply::Busy { .. } = bench.change_by(id(1, 1), Mode::Exclusive, 1) else { panic!() };
    bench.release(id(2, 1));
    let writer = granted(bench.change_by(id(1, 1), Mode::Exclusive, 2));
    assert_eq!(bench.change_by(id(1, 1), Mode::Shared, 1), Reply::Stale);
    let Reply::Busy { .. } = bench.try_acquire(id(2, 2), Mode::Shared) else { panic!() };
    assert_eq!(granted(bench.believe(id(1, 1), Mode::Exclusive, 2)).token, writer.token);
}

#[test]
fn an_upgrade_that_was_taken_back_stays_taken_back_though_a_copy_comes_late() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    granted(bench.change_by(id(1, 1), Mode::Exclusive, 1));
    granted(bench.change_by(id(1, 1), Mode::Shared, 1));
    assert_eq!(bench.change_by(id(1, 1), Mode::Exclusive, 1), Reply::Stale);
    bench.take(id(2, 1), Mode::Shared);
    let Reply::Busy { .. } = bench.change_by(id(1, 1), Mode::Exclusive, 2) else { panic!() };
    granted(bench.change_by(id(1, 1), Mode::Shared, 2));
    assert_eq!(bench.change_by(id(1, 1), Mode::Exclusive, 2), Reply::Stale, "nor is it a wish");
    bench.take(id(3, 1), Mode::Shared);
}

#[test]
fn a_reader_that_was_told_of_the_deadlock_may_ask_again() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    bench.change_by(id(1, 1), Mode::Exclusive, 1);
    assert_eq!(bench.change_by(id(2, 1), Mode::Exclusive, 1), Reply::WouldDeadlock);
    bench.change_by(id(1, 1), Mode::Shared, 1);
    let Reply::Busy { .. } = bench.change_by(id(2, 1), Mode::Exclusive, 1) else { panic!() };
}

#[test]
fn a_holder_that_believes_to_be_a_reader_is_one_from_its_next_renewal_on() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Shared);
    granted(bench.believe(id(1, 1), Mode::Shared, 1));
    assert_eq!(bench.told(), [id(2, 1)], "and readers are let in");
    bench.change_by(id(1, 1), Mode::Exclusive, 2);
    bench.release(id(2, 1));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, LOCK_CAPACITY);
    granted(bench.believe(id(1, 1), Mode::Shared, 2));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, 1, "the upgrade was given up");
}

#[test]
fn a_renewal_from_before_a_change_only_prolongs() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    bench.change_by(id(1, 1), Mode::Exclusive, 1);
    granted(bench.believe(id(1, 1), Mode::Shared, 0));
    assert_eq!(bench.record.upgrading, Some(id(1, 1)), "the wish stays");
    bench.release(id(2, 1));
    granted(bench.believe(id(1, 1), Mode::Shared, 0));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, LOCK_CAPACITY, "it is the writer");
    granted(bench.change_by(id(1, 1), Mode::Shared, 2));
    granted(bench.believe(id(1, 1), Mode::Exclusive, 1));
    assert_eq!(bench.hold(id(1, 1)).unwrap().weight, 1);
}

#[test]
fn a_writer_of_which_the_store_knows_only_the_reader_is_told_so() {
    let mut bench = Bench::new();
    let reader = bench.take(id(1, 1), Mode::Shared);
    let lost = bench.believe(id(1, 1), Mode::Exclusive, 1);
    assert_eq!(lost, Reply::NotHeld { newest: Some(reader.token) });
    assert!(bench.hold(id(1, 1)).is_some(), "until it lets go");
}
