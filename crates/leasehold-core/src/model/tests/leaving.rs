//! Release, cancel, the limits of renewal, revocation, and the memory of finished attempts.

use super::*;

#[test]
fn a_late_copy_of_an_acquire_is_refused_after_a_cancel_or_release_that_expects_it() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.act(&Action::Cancel { id: id(2, 1), unanswered: true });
    bench.act(&Action::Release { id: id(1, 1), cooldown: Duration::ZERO, unanswered: true });
    assert_eq!(bench.acquire(id(1, 1), Mode::Exclusive), Reply::Stale);
    assert_eq!(bench.acquire(id(2, 1), Mode::Exclusive), Reply::Stale);
}

#[test]
fn a_finished_attempt_is_remembered_for_as_long_as_a_copy_may_be_executed() {
    let mut bench = Bench::held();
    bench.act(&Action::Release { id: id(1, 1), cooldown: Duration::ZERO, unanswered: true });
    let late = bench.request(id(1, 1), Mode::Exclusive);
    bench.pass(TOMBSTONE_LIFE);
    assert_eq!(bench.act(&Action::Acquire(late)), Reply::Late, "it ends before the memory does");
    bench.now_us -= 1;
    assert_eq!(bench.acquire(id(1, 1), Mode::Exclusive), Reply::Stale);
    bench.now_us += 1;
    bench.cancel(id(2, 1));
    assert_eq!(bench.record.tombstones.len(), 1, "and then it is forgotten");
    bench.take(id(1, 1), Mode::Exclusive);
}

#[test]
fn an_older_attempt_that_still_waits_is_not_touched_by_a_newer_one_that_has_ended() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.act(&Action::Cancel { id: id(2, 7), unanswered: true });
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.release(id(1, 1));
    granted(bench.poll(id(2, 1)));
}

#[test]
fn the_oldest_of_too_many_finished_attempts_is_forgotten() {
    let mut bench = Bench::new();
    for client in 0..=MAX_TOMBSTONES as u128 {
        bench.cancel(id(client, 5));
    }
    assert_eq!(bench.record.tombstones.len(), MAX_TOMBSTONES);
    assert_eq!(bench.acquire(id(1, 5), Mode::Exclusive), Reply::Stale);
    bench.take(id(0, 5), Mode::Exclusive);
}

#[test]
fn a_renewal_after_the_deadline_revives_nothing() {
    let mut bench = Bench::held();
    let newest = Some(FencingToken::from_micros(bench.record.last_token_us));
    bench.pass(TTL);
    assert_eq!(bench.renew(id(1, 1), TTL), Reply::NotHeld { newest });
    assert!(bench.record.is_idle());
}

#[test]
fn a_late_renewal_hands_the_lapsed_lock_on() {
    let mut bench = Bench::held();
    bench.pass(TTL - Duration::from_millis(1));
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.pass(Duration::from_millis(1));
    let Reply::NotHeld { .. } = bench.renew(id(1, 1), TTL) else { panic!() };
    assert_eq!(bench.told(), [id(2, 1)]);
}

#[test]
fn a_shorter_renewal_to_the_very_deadline_changes_nothing() {
    let mut bench = Bench::held();
    let before = bench.record.clone();
    bench.pass(seconds(20));
    bench.renew(id(1, 1), TTL - seconds(20));
    assert_eq!(bench.record, before);
}

#[test]
fn a_holder_learns_from_its_renewal_that_somebody_waits() {
    let mut bench = Bench::held();
    assert!(!granted(bench.renew(id(1, 1), TTL)).contended);
    bench.wait(id(2, 1), Mode::Exclusive);
    assert!(granted(bench.renew(id(1, 1), TTL)).contended);
}

/// The facts about a holder after the lease was passed on `times` times.
fn after(times: u16) -> HolderInfo {
    let after = Duration::from_millis(times.into());
    HolderInfo::new("h", 7).with_passed_on(PassedOn { times, after })
}

#[test]
fn a_lease_that_was_passed_on_is_shown_as_its_holders_and_a_late_word_changes_nothing() {
    let mut bench = Bench::new();
    let grant = bench.take(id(1, 1), Mode::Exclusive).token;
    for times in [2, 1] {
        granted(bench.act(&Action::Describe { id: id(1, 1), info: after(times) }));
    }
    bench.pass(seconds(1));
    let held_for = Duration::from_millis(998);
    let Reply::Status(status) = bench.act(&Action::Inspect { limit: 1 }) else { panic!() };
    let holder = &status.holders[0];
    assert_eq!((Some(holder.token), holder.held_for), (grant.passed_on(2), held_for));
}

#[test]
fn a_revoked_holder_that_hears_nothing_is_ended_by_its_deadline() {
    let mut bench = Bench::held();
    let token = FencingToken::from_micros(bench.record.last_token_us);
    bench.revoke(id(1, 1), token, false);
    bench.pass(TTL - seconds(1));
    bench.renew(id(1, 1), TTL);
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.pass(seconds(1));
    granted(bench.poll(id(2, 1)));
}

#[test]
fn a_holder_whose_hold_was_ended_at_once_is_told_that_it_was_revoked_until_its_deadline() {
    let mut bench = Bench::new();
    let ttl = 10 * TOMBSTONE_LIFE;
    let request = Acquire { ttl, ..bench.request(id(1, 1), Mode::Exclusive) };
    let token = granted(bench.act(&Action::Acquire(request))).token;
    assert_eq!(bench.revoke(id(1, 1), token, true), Reply::Revoked(true));
    granted(bench.acquire(id(2, 1), Mode::Exclusive));
    bench.pass(ttl / 2);
    assert_eq!(bench.renew(id(1, 1), ttl), Reply::Revoked(true), "though another has it now");
    let Reply::NotHeld { .. } = bench.renew(id(1, 2), ttl) else { panic!("another attempt") };
    bench.pass(ttl / 2);
    let Reply::NotHeld { .. } = bench.renew(id(1, 1), ttl) else { panic!("over by now anyway") };
}

#[test]
fn a_later_attempt_of_a_client_does_not_end_the_memory_of_it_before_its_time() {
    let mut bench = Bench::held();
    let token = FencingToken::from_micros(bench.record.last_token_us);
    bench.revoke(id(1, 1), token, true);
    let ends = bench.record.tombstones[0].until_us;
    bench.pass(seconds(1));
    bench.record.add_tombstone(
        Tombstone { client: ClientId(1), attempt: 0, until_us: 0, revoked: false },
        bench.now_us,
    );
    assert_eq!(bench.record.tombstones[0].until_us, ends);
    assert_eq!(bench.renew(id(1, 1), TTL), Reply::Revoked(true), "an earlier one has ended late");
}

#[test]
fn a_cooldown_is_revoked_without_force_and_without_a_message() {
    let mut bench = Bench::held();
    let token = FencingToken::from_micros(bench.record.last_token_us);
    bench.act(&Action::Release { id: id(1, 1), cooldown: seconds(50), unanswered: false });
    assert_eq!(bench.revoke(id(1, 1), token, false), Reply::Revoked(true));
    assert_eq!(bench.messages, []);
    bench.take(id(2, 1), Mode::Exclusive);
}

#[test]
fn the_end_of_a_client_ends_all_it_has_but_its_cooldowns() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(1, 2), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    bench.act(&Action::Release { id: id(1, 2), cooldown: seconds(9), unanswered: false });
    bench.wait(id(1, 3), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Shared);
    bench.reap(1);
    assert_eq!(bench.holders(), [id(1, 2), id(2, 1), id(3, 1)]);
    assert_eq!(bench.told(), [id(3, 1)]);
    assert!(bench.record.queue.is_empty() && bench.record.clients.is_empty());
}
