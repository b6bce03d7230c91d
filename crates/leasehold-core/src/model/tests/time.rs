//! Dead waiters, bounded sweeps, a clock that goes back, and how long a record is kept.

use super::*;
use crate::model::rows::NEVER_US;

/// Client 1 holds. Behind it wait `count` clients, numbered from 100, that are never seen again.
/// Client 2 waits last.
fn behind_the_dead(count: u128) -> Bench {
    let mut bench = Bench::held();
    for client in 100..100 + count {
        bench.wait(id(client, 1), Mode::Exclusive);
    }
    bench.wait(id(2, 1), Mode::Exclusive);
    bench
}

/// Polls until granted, as a live client does: once per interval, and immediately when the last
/// step says `more`.
fn poll_until_granted(bench: &mut Bench, who: HolderId) -> Duration {
    let start_us = bench.now_us;
    loop {
        let reply = bench.poll(who);
        if let Reply::Granted(_) = reply {
            return Duration::from_micros(bench.now_us - start_us);
        }
        if !bench.more {
            bench.pass(POLL_INTERVAL);
        }
        assert!(bench.now_us - start_us < 60_000_000, "never granted: {reply:?}");
    }
}

#[test]
fn fifty_waiters_that_died_together_cost_no_more_than_one_wait_for_the_dead() {
    let mut bench = behind_the_dead(50);
    bench.release(id(1, 1));
    let waited = poll_until_granted(&mut bench, id(2, 1));
    assert!(waited <= CLAIM_WINDOW.max(DEAD_AFTER) + POLL_INTERVAL, "{waited:?}");
}

#[test]
fn waiters_that_are_long_dead_cost_nothing() {
    let mut bench = behind_the_dead(50);
    for _ in 0..DEAD_AFTER.as_secs() {
        bench.pass(seconds(1));
        bench.poll(id(2, 1));
    }
    bench.release(id(1, 1));
    assert_eq!(poll_until_granted(&mut bench, id(2, 1)), Duration::ZERO);
}

#[test]
fn no_more_of_the_dead_are_skipped_in_one_step_than_the_bound() {
    let mut bench = behind_the_dead(50);
    bench.pass(DEAD_AFTER);
    let left = |bench: &Bench| bench.record.queue.len() as u32;
    bench.act(&Action::Release { id: id(1, 1), cooldown: Duration::ZERO, unanswered: false });
    assert_eq!((left(&bench), bench.more), (51 - SKIP_BOUND, true));
    bench.poll(id(2, 1));
    assert_eq!((left(&bench), bench.more), (51 - 2 * SKIP_BOUND, true));
}

#[test]
fn one_poll_keeps_all_the_waiters_of_a_client_alive() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.wait(id(2, 2), Mode::Exclusive);
    for _ in 0..5 {
        bench.pass(seconds(1));
        bench.poll(id(2, 2));
    }
    bench.release(id(1, 1));
    assert_eq!(bench.told(), [id(2, 1)]);
}

#[test]
fn a_waiter_that_was_silent_has_time_for_one_more_poll_and_no_longer() {
    let mut bench = Bench::held();
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.pass(DEAD_AFTER - Duration::from_millis(1));
    bench.release(id(1, 1));
    let deadline_us = bench.hold(id(2, 1)).unwrap().deadline_us;
    assert_eq!(deadline_us, bench.now_us + micros(POLL_INTERVAL));
}

#[test]
fn a_sweep_looks_at_a_bounded_number_of_holds_and_comes_to_an_end() {
    let mut bench = Bench::new();
    let readers = 3 * u128::from(REAP_BOUND) + 7;
    for client in 1..=readers {
        bench.take(id(client, 1), Mode::Shared);
    }
    bench.pass(TTL);
    let mut left = readers as usize;
    while bench.poll(id(0, 1)) == Reply::Gone && bench.more {
        let now_left = bench.record.holds.len();
        assert_eq!(left - now_left, REAP_BOUND as usize);
        left = now_left;
    }
    assert_eq!(bench.record.holds, []);
}

#[test]
fn a_hold_that_a_bounded_sweep_has_not_reached_is_over_all_the_same() {
    let mut bench = Bench::new();
    let readers = 2 * u128::from(REAP_BOUND);
    for client in 1..=readers {
        bench.take(id(client, 1), Mode::Shared);
    }
    bench.pass(TTL);
    let Reply::NotHeld { .. } = bench.renew(id(readers, 1), TTL) else { panic!() };
    assert!(bench.hold(id(readers, 1)).is_none());
}

#[test]
fn a_sweep_that_finds_everyone_alive_does_not_look_again_before_somebody_may_end() {
    let mut bench = Bench::new();
    for client in 1..=10 {
        bench.take(id(client, 1), Mode::Shared);
        bench.pass(seconds(1));
    }
    for client in 1..=10 {
        bench.renew(id(client, 1), TTL);
    }
    bench.pass(TTL - seconds(1));
    bench.poll(id(99, 1));
    assert_eq!(bench.record.sweep.bound_us, bench.now_us + 1_000_000);
}

#[test]
fn after_the_clock_went_back_a_lease_ends_within_its_ttl_and_a_claim_window() {
    let mut bench = Bench::held();
    bench.now_us -= 500_000_000;
    bench.wait(id(2, 1), Mode::Exclusive);
    let waited = poll_until_granted(&mut bench, id(2, 1));
    assert!(waited <= TTL + CLAIM_WINDOW + POLL_INTERVAL, "{waited:?}");
}

#[test]
fn a_renewal_after_the_clock_went_back_leads_to_no_deadline_far_in_the_future() {
    let mut bench = Bench::held();
    bench.now_us -= 500_000_000;
    let grant = granted(bench.renew(id(1, 1), TTL));
    assert!(grant.deadline_us <= bench.now_us + micros(TTL + CLAIM_WINDOW));
}

/// A hold of 100 s and one of 10 s. The clock was set back by the longest span that nobody can
/// notice, plus `further_us`.
fn hardly_noticed(further_us: u64) -> Bench {
    let mut bench = Bench::new();
    let long = Acquire { ttl: seconds(100), ..bench.request(id(1, 1), Mode::Shared) };
    bench.act(&Action::Acquire(long));
    let short = Acquire { ttl: seconds(10), ..bench.request(id(2, 1), Mode::Shared) };
    bench.act(&Action::Acquire(short));
    bench.now_us -= micros(seconds(90) + CLAIM_WINDOW) + further_us;
    bench
}

#[test]
fn a_clock_went_back_if_no_hold_ends_within_the_longest_ttl_and_a_claim_window() {
    for (further_us, left) in [(0, seconds(100) + CLAIM_WINDOW), (1, seconds(10) + CLAIM_WINDOW)] {
        let mut bench = hardly_noticed(further_us);
        bench.poll(id(3, 1));
        let hold = bench.hold(id(2, 1)).unwrap();
        assert_eq!(hold.deadline_us, bench.now_us + micros(left));
    }
}

#[test]
fn a_short_lease_beside_a_long_one_ends_in_time_after_the_clock_went_back() {
    let mut bench = Bench::new();
    let long = Acquire { ttl: seconds(100), ..bench.request(id(1, 1), Mode::Shared) };
    bench.act(&Action::Acquire(long));
    bench.pass(seconds(99));
    let short = Acquire { ttl: seconds(10), ..bench.request(id(2, 1), Mode::Shared) };
    bench.act(&Action::Acquire(short));
    bench.now_us -= 49_000_000;
    let deadline_us = granted(bench.renew(id(2, 1), seconds(1))).deadline_us;
    assert!(bench.record.sweep.bound_us <= deadline_us);
}

#[test]
fn a_record_is_kept_for_its_retention_after_its_last_use() {
    let mut bench = Bench::held();
    bench.release(id(1, 1));
    let until_us = bench.now_us + micros(TTL + RETENTION);
    assert!(bench.record.collect_at_us >= until_us);
    assert!(bench.record.collect_at_us <= until_us + micros(RETENTION / 2));
}

#[test]
fn the_time_of_a_record_moves_only_once_half_a_retention_of_slack_is_used_up() {
    let mut bench = Bench::held();
    let slack = RETENTION / 2;
    let collect_at_us = START_US + micros(TTL + RETENTION + slack);
    assert_eq!(bench.record.collect_at_us, collect_at_us);
    for _ in 0..3 {
        bench.pass(slack / 3);
        granted(bench.renew(id(1, 1), TTL));
        assert_eq!(bench.record.collect_at_us, collect_at_us);
    }
    bench.now_us += 1;
    granted(bench.renew(id(1, 1), TTL));
    assert_eq!(bench.record.collect_at_us, collect_at_us + 1 + micros(slack));
}

#[test]
fn what_is_left_of_a_name_that_was_used_a_thousand_times_is_small() {
    let mut bench = Bench::new();
    for round in 1..1000 {
        bench.take(id(1, round), Mode::Exclusive);
        bench.wait(id(2, round), Mode::Exclusive);
        bench.release(id(1, round));
        granted(bench.poll(id(2, round)));
        bench.release(id(2, round));
        bench.pass(Duration::from_millis(10));
    }
    let left = Record {
        capacity: LOCK_CAPACITY,
        last_token_us: bench.record.last_token_us,
        last: bench.record.last.clone(),
        collect_at_us: bench.record.collect_at_us,
        ..Record::default()
    };
    assert_eq!(bench.record, left);
}

#[test]
fn a_hold_whose_end_draws_nearer_behind_a_sweep_under_way_is_not_forgotten() {
    let mut bench = Bench::new();
    for client in 0..2 * u128::from(REAP_BOUND) {
        let ttl = if client == 0 { TTL } else { TTL * 2 };
        let reader = Acquire { ttl, ..bench.request(id(client, 1), Mode::Shared) };
        bench.act(&Action::Acquire(reader));
    }
    bench.pass(TTL);
    bench.poll(id(999, 1));
    assert!(bench.more, "the sweep is under way");
    let first = bench.record.holds[0].id;
    bench.act(&Action::Release { id: first, cooldown: seconds(1), unanswered: false });
    bench.poll(id(999, 1));
    assert!(!bench.more);
    assert_eq!(bench.record.sweep.bound_us, bench.now_us + 1_000_000);
}

#[test]
fn no_deadline_is_the_largest_number_up_to_which_a_script_counts_exactly() {
    let doubles = [0, 1].map(|more| (NEVER_US + more) as f64);
    assert_eq!(doubles.map(|double| double as u64), [NEVER_US, NEVER_US + 1]);
    assert_eq!((NEVER_US + 2) as f64, doubles[1]);
}

#[test]
fn a_hold_that_moves_behind_a_sweep_under_way_is_not_forgotten() {
    let mut bench = Bench::new();
    let last = 3 * u128::from(REAP_BOUND);
    for client in 0..=last {
        let times = match client {
            0 => 1,
            _ if client == last - 1 => 2,
            _ => 3,
        };
        let reader = Acquire { ttl: TTL * times, ..bench.request(id(client, 1), Mode::Shared) };
        bench.act(&Action::Acquire(reader));
    }
    bench.pass(TTL);
    bench.poll(id(999, 1));
    assert_eq!(bench.record.holds.last().unwrap().id, id(last - 1, 1), "the first has ended");
    bench.release(id(1, 1));
    assert!(bench.more, "the sweep is under way");
    assert_eq!(bench.record.holds[1].id, id(last - 1, 1), "it lies where the sweep has been");
    bench.poll(id(999, 1));
    assert!(!bench.more);
    assert_eq!(bench.record.sweep.bound_us, bench.now_us + micros(TTL));
}
