//! Tests that each check finds its violations, and no others.

use std::fs;

use leasehold_core::LOCK_CAPACITY as ALL;
use leasehold_testkit::must;

use super::*;

/// The checks that fail for a log with these lines.
fn broken(log: &str) -> Vec<String> {
    let directory = must(tempfile::tempdir());
    must(fs::write(directory.path().join("1.log"), log));
    Verdict::of(directory.path(), &mut HashMap::new()).outcome.violations.into_keys().collect()
}

/// A promise of a guard (with a separate lease) on the name `n`.
fn promise(guard: u64, span: (u64, u64), token: u64, weight: u32, capacity: u32) -> String {
    format!("p n {guard} {guard} {} {} {token} {weight} {capacity}\n", span.0, span.1)
}

#[test]
fn who_holds_alone_is_alone_at_every_instant() {
    let one = promise(1, (10, 20), 5, ALL, ALL);
    assert_eq!(broken(&(one.clone() + &promise(2, (20, 30), 6, ALL, ALL))), [""; 0]);
    assert_eq!(broken(&(one.clone() + &promise(2, (19, 30), 6, ALL, ALL))), ["I4"]);
    assert_eq!(broken(&(one + &promise(2, (12, 14), 6, 1, ALL))), ["I9"]);
}

#[test]
fn readers_hold_together_and_permits_add_up_to_the_capacity() {
    let readers = promise(1, (10, 20), 5, 1, ALL) + &promise(2, (11, 21), 4, 1, ALL);
    assert_eq!(broken(&readers), [""; 0]);
    let permits = promise(1, (10, 20), 5, 2, 4) + &promise(2, (11, 21), 6, 2, 4);
    assert_eq!(broken(&permits), [""; 0]);
    assert_eq!(broken(&(permits + &promise(3, (19, 25), 7, 1, 4))), ["I9"]);
}

#[test]
fn tokens_are_ordered_as_promises_and_as_grants_are() {
    let lower_later = promise(1, (10, 20), 5, ALL, ALL) + &promise(2, (30, 40), 4, 1, ALL);
    assert_eq!(broken(&lower_later), ["holds"]);
    let twice = promise(1, (10, 20), 5, ALL, ALL) + &promise(2, (30, 40), 5, ALL, ALL);
    assert_eq!(broken(&twice), ["I1"]);
    assert_eq!(broken("g n 1 1 2 8192 7 1\ng n 2 3 4 4096 7 2\n"), ["I2"]);
    assert_eq!(broken("g n 1 1 4 8192 7 1\ng n 2 3 5 4096 7 2\n"), [""; 0]);
    assert_eq!(broken("g n 1 1 2 8192 7 1\ng n 2 3 4 4097 7 2\n"), [""; 0], "passed on");
}

#[test]
fn a_token_that_is_lower_than_in_a_round_before_is_found() {
    let directory = must(tempfile::tempdir());
    must(fs::write(directory.path().join("1.log"), "g n 1 1 2 4096 7 1\n"));
    let mut highest = HashMap::new();
    assert_eq!(Verdict::of(directory.path(), &mut highest).outcome.token_regressions(), 0);
    assert_eq!(Verdict::of(directory.path(), &mut highest).outcome.token_regressions(), 1);
}

#[test]
fn guards_of_one_lease_may_have_its_token_one_after_the_other() {
    let handed_on = format!("p n 1 1 10 20 5 {ALL} {ALL}\np n 2 1 30 40 5 {ALL} {ALL}\na 1\n");
    assert_eq!(broken(&handed_on), [""; 0]);
    assert_eq!(broken("a 1\na 1\n"), ["I10"]);
}

#[test]
fn the_line_at_which_a_process_was_killed_is_not_read() {
    assert_eq!(broken("e dropped\np n 1 1 10"), [""; 0]);
}

#[test]
fn what_a_process_says_itself_must_not_be_is_counted() {
    assert_eq!(broken("v I5 n is held without validity\n"), ["I5"]);
}

#[test]
fn an_attempt_with_two_tokens_is_found() {
    let (one, other) = (1 << 12, 2 << 12);
    let grants = format!("g n 1 1 10 {one} 7 1\ng n 2 2 30 {other} 7 1\n");
    let held = promise(1, (10, 20), one, ALL, ALL) + &promise(2, (30, 40), other, ALL, ALL);
    assert_eq!(broken(&(grants + &held)), ["I10"]);
}

#[test]
fn a_name_that_is_free_for_minutes_while_somebody_waits_is_found() {
    let minutes = 120_000_000_000_u64;
    assert_eq!(broken(&format!("u n 1 {minutes}\n")), ["I8"]);
    assert_eq!(broken("u n 1 1000\n"), [""; 0]);
    let short_by = |ns: u64| format!("s 1 {}\n", minutes - 45_000_000_000 + ns);
    let stalled = |ns| broken(&format!("u n 1 {minutes}\n{}", short_by(ns)));
    assert_eq!([stalled(0), stalled(1_000)].concat(), [""; 0], "the machine was too busy");
    assert_eq!(broken(&format!("u n 1 {minutes}\ns 1 2000000000\n")), ["I8"], "it is too long");
}

#[test]
fn a_waiter_behind_another_in_the_queue_is_served_after_it() {
    let (earlier, later) = (1_u64 << 12, 2_u64 << 12);
    let grant = |attempt: u64, token: u64| format!("g n {attempt} 1 30 {token} 7 {attempt}\n");
    let queue = "o n 7 1 5 7 2 6\n";
    let in_order = grant(1, earlier) + &grant(2, later) + queue;
    assert_eq!(broken(&in_order), [""; 0]);
    let out_of_order = grant(1, later) + &grant(2, earlier);
    assert_eq!(broken(&(out_of_order.clone() + queue)), ["I6"]);
    assert_eq!(broken(&out_of_order), [""; 0], "nobody saw them wait");
    let stopped = |ms: u64| {
        let first = format!("g n {} 1 3000000000 {later} 7 1\n", 5_u64 << 48);
        broken(&(first + &grant(2, earlier) + queue + &format!("z 5 0 {ms}000000\n")))
    };
    assert_eq!([stopped(900), stopped(1_100)], [vec!["I6"], vec![]], "who is stopped claims none");
    let unclaimed = grant(1, earlier + (2_000_000 << 12)) + &grant(2, earlier) + queue;
    assert_eq!(broken(&unclaimed), [""; 0], "the first may not have claimed its first grant");
    let late = format!("g n 1 1 9000000000 {later} 7 1\ng n 2 1 9000000000 {earlier} 7 2\n");
    assert_eq!(broken(&(late + queue)), [""; 0], "the first may have been away for too long");
}

#[test]
fn a_leader_that_was_replaced_before_somebody_asked_is_found() {
    let two = "g n 1 1 2 5 7 1\ng n 2 3 4 9 7 2\n".to_owned();
    assert_eq!(broken(&(two.clone() + "l n 9 5\nl n 5 3\n")), [""; 0]);
    assert_eq!(broken(&(two + "l n 5 5\n")), ["leader"]);
}

/// Updates of the name `n`: value, from, to, token and the replaced value.
fn updates(of: &[(u64, u64, u64, u64, u64)]) -> String {
    let lines = of.iter().map(|(value, from, to, token, old)| {
        format!("r n {value} {from} {token}\nd {value} {to} {old}\n")
    });
    lines.collect()
}

#[test]
fn updates_that_follow_each_other_are_in_order_and_one_that_is_lost_is_found() {
    assert_eq!(broken(&updates(&[(1, 10, 20, 1, 0), (2, 30, 40, 2, 1)])), [""; 0]);
    assert_eq!(broken(&updates(&[(1, 10, 30, 1, 0), (2, 20, 40, 2, 0)])), ["updates"]);
    assert_eq!(broken(&updates(&[(1, 10, 30, 1, 2), (2, 20, 40, 2, 0)])), [""; 0]);
    assert_eq!(broken(&updates(&[(1, 10, 20, 1, 2), (2, 30, 40, 2, 0)])), ["updates"]);
}

#[test]
fn an_update_that_was_broken_off_may_have_been_or_not() {
    let done = updates(&[(1, 10, 20, 1, 0), (3, 50, 60, 3, 2)]);
    assert_eq!(broken(&(done.clone() + "r n 2 30 2\n")), [""; 0]);
    let not = updates(&[(1, 10, 20, 1, 0), (3, 50, 60, 3, 1)]);
    assert_eq!(broken(&(not.clone() + "r n 2 30 2\n")), [""; 0]);
    assert_eq!(broken(&(done + "r n 2 30 2\nn 2\n")), ["updates"], "it was refused");
}

#[test]
fn what_is_accepted_after_a_higher_token_is_found() {
    assert_eq!(broken(&updates(&[(1, 10, 20, 2, 0), (2, 30, 40, 1, 1)])), ["I3"]);
}

#[test]
fn a_fault_costs_the_time_in_which_nobody_is_served() {
    let ms = 1_000_000;
    let (begun, healed) = (10 * ms, 60 * ms);
    let grant = |asked: u64, entered: u64, token: u64| {
        format!("g n {token} {asked} {entered} {token} 7 {token}\n")
    };
    let grants = grant(1, 9 * ms, 1) + &grant(9 * ms, 70 * ms, 2) + &grant(70 * ms, 71 * ms, 3);
    let directory = must(tempfile::tempdir());
    let log = format!("{grants}f {begun} {healed} stop\n");
    must(fs::write(directory.path().join("1.log"), log));
    let verdict = Verdict::of(directory.path(), &mut HashMap::new());
    let cost = &verdict.outcome.faults.0["stop"];
    assert_eq!(
        (&cost.lasted_ms[..], &cost.silent_ms[..], &cost.served_ms[..]),
        (&[50][..], &[60][..], &[10][..])
    );
}

#[test]
fn a_job_that_has_reported_its_end_is_not_started_again_in_its_period() {
    let starts = |again: u64| format!("g n 1 1000 1010 5 7 1\ng n 2 {again} {again} 9 7 2\n");
    assert_eq!(broken(&(starts(1900) + "j n 1 1000\n")), ["jobs"]);
    assert_eq!(broken(&(starts(2000) + "j n 1 1000\n")), [""; 0]);
    assert_eq!(broken(&starts(1900)), [""; 0], "its machine did not live to report it");
    let overtaken = "g n 1 1000 1010 5 7 1\ng n 2 900 1900 4 7 2\nj n 1 1000\n";
    assert_eq!(broken(overtaken), [""; 0], "the reply to an earlier grant was late");
}

#[test]
fn a_number_that_is_given_out_twice_or_too_late_is_found_and_so_is_a_gap() {
    let two = "m short try\nm short 1 10 20\nm short try\nm short 2 30 40\n";
    assert_eq!(broken(two), [""; 0]);
    assert_eq!(broken(&two.replace("short 2", "short 1")), ["numbers"]);
    assert_eq!(broken(&two.replace("short 2", "short 3")), ["numbers"], "nobody asked for 2");
    assert_eq!(broken(&(two.replace("short 2", "short 3") + "m short try\n")), [""; 0]);
    let increasing = "m increasing 9 10 20\nm increasing 7 30 40\n";
    assert_eq!(broken(increasing), ["numbers"]);
    assert_eq!(broken(&increasing.replace("increasing", "blocks")), [""; 0]);
    assert_eq!(broken("m blocks 9 10 20\nm blocks 9 30 40\n"), ["numbers"]);
}
