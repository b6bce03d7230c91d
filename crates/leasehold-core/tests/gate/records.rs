//! What one step does to a record, where no order of events matters: who waits, who is served.

use std::time::Duration;

use leasehold_core::model::{BATCH, Gate, MAX_WAITING, Record, State, Times, Waiter};
use leasehold_core::{Action, HolderInfo, Mode, Refusal, Reply, Take};

use super::quick;
use super::state::{id, span};
use super::store::{
    START_MS, Store, TTL_MS, described, end, granted, is_granted, is_queued, keep, place, request,
    take, token,
};

#[test]
fn one_command_and_the_script_take_a_free_name_alike() {
    let (mut one, mut other) = (Store::new(), Store::new());
    let now = one.now();
    let token = quick::set(&mut one.record, &mut one.counter, now, (id(1), TTL_MS));
    let reply = other.take(1, Mode::Exclusive);
    assert_eq!(token.map(granted), Some(reply));
    let Some(Gate { state: State::Held(hold), .. }) = &mut other.record.gate else { panic!() };
    hold.token = None;
    assert_eq!(one.record, other.record);
    assert!(quick::delete(&mut one.record, now, &end(1)));
    assert_eq!(one.record, Record::default());
}

#[test]
fn one_command_deletes_nothing_that_somebody_awaits_or_that_was_described() {
    let mut store = Store::new();
    let now = store.now();
    quick::set(&mut store.record, &mut store.counter, now, (id(1), TTL_MS));
    assert_eq!(place(&store.take(2, Mode::Exclusive)).ahead, 0);
    assert!(!quick::delete(&mut store.record, now, &end(1)));
    assert_eq!(store.end(1), [2], "the script hands the name on");

    let mut store = Store::new();
    let token = quick::set(&mut store.record, &mut store.counter, now, (id(1), TTL_MS)).unwrap();
    let keep = keep(1).with_description(described(token, HolderInfo::new("host", 7)));
    assert_eq!(store.step(&Action::Keep(keep)).0, Reply::Kept { contended: false });
    assert!(!quick::delete(&mut store.record, now, &end(1)));
    let end = end(1).with_known(described(token, HolderInfo::new("host", 7)));
    assert!(quick::delete(&mut store.record, now, &end));
}

#[test]
fn fifty_waiters_that_are_frozen_cost_two_claim_windows() {
    let mut store = Store::new();
    store.take(0, Mode::Exclusive);
    for frozen in 1..=50 {
        store.take(frozen, Mode::Exclusive);
    }
    let Times { ask_ms: second_ms, window_ms, .. } = Times::USUAL;
    assert_eq!(store.end(0), [1]);
    while let Reply::Queued(place) = store.take(51, Mode::Exclusive) {
        store.now_ms += place.retry_after.as_millis() as u64;
        assert!(store.now_ms - START_MS <= 2 * (window_ms + second_ms), "waiter 51 still waits");
    }
    assert!(store.record.queue.is_empty());
}

const DAY: Duration = Duration::from_hours(24);

fn once(number: u8) -> Take {
    take(number, Mode::Exclusive).with_once_per(Some(DAY))
}

fn next_in(reply: &Reply) -> Option<Duration> {
    match reply {
        Reply::Done { next_in, .. } => Some(*next_in),
        _ => None,
    }
}

#[test]
fn a_run_that_succeeded_is_enough_from_its_beginning_on_for_its_span() {
    let mut store = Store::new();
    let Reply::Granted(grant) = store.ask(once(1)) else { panic!() };
    assert!(is_queued(&store.ask(once(2).with_waits(true))));
    store.after(8_000);
    store.step(&Action::End(end(1).with_done(2 * DAY)));
    store.after(2_000);
    let Reply::Done { last, next_in: left } = store.ask(once(3)) else { panic!() };
    assert_eq!((last.id, last.token, left), (id(1), grant.token, DAY - span(10_000)));
    assert_eq!(last.ended_ago, span(2_000));
    assert_eq!(next_in(&store.ask(once(2))), Some(left), "also to whom the name was handed over");
    store.end(2);
    assert!(is_granted(&store.take(4, Mode::Exclusive)), "who wants more gets it");
    store.end(4);
    assert_eq!(store.look().last_holder.map(|last| last.id), Some(id(1)));
    store.after(left.as_millis() as u64 - 1);
    assert_eq!(next_in(&store.ask(once(3))), Some(span(1)));
    assert!(is_granted(&store.after(1).ask(once(3))));
    store.end(3);
    store.after(DAY.as_millis() as u64 + 10_001);
    store.look();
    assert_eq!(store.record, Record::default());
}

#[test]
fn a_full_queue_takes_nobody_else_but_those_that_had_a_place() {
    let mut store = Store::held();
    let place = place(&store.take(2, Mode::Exclusive)).sequence;
    let asked_ms = store.now_ms;
    for place in 1..=MAX_WAITING as u64 {
        let waiter = Waiter { request: request(3, Mode::Exclusive), asked_ms };
        store.record.queue.insert(place, waiter);
    }
    assert_eq!(store.take(4, Mode::Exclusive), Reply::Refused(Refusal::QueueFull));
    assert!(is_queued(&store.ask(take(2, Mode::Exclusive).with_place(Some(place)))));
    assert!(matches!(store.attempt(4, Mode::Exclusive), Reply::Busy { .. }));
}

#[test]
fn no_more_of_the_silent_are_passed_over_in_one_step_than_the_bound() {
    let mut store = Store::held();
    for silent in 2..52 {
        store.take(silent, Mode::Exclusive);
    }
    store.after(TTL_MS);
    assert!(store.end(1).is_empty());
    assert_eq!(store.record.queue.len(), 50 - BATCH);
    let next = place(&store.take(52, Mode::Exclusive));
    assert_eq!((next.ahead as usize, next.retry_after), (50 - 2 * BATCH, span(0)), "at once");
}

#[test]
fn a_keep_after_the_deadline_revives_nothing_although_the_gate_is_still_there() {
    let mut store = Store::held();
    store.after(TTL_MS).take(2, Mode::Exclusive);
    assert_eq!(store.after(1).keep(1), Reply::NotHeld);
    assert!(store.record.gate.is_some());
    assert!(is_granted(&store.take(2, Mode::Exclusive)), "the first that asks has it");
}

#[test]
fn a_hold_that_is_over_is_no_lock_of_another_kind() {
    let permit = |capacity| Mode::Permits { count: 1, capacity };
    for (held, asked) in [(Mode::Exclusive, permit(2)), (permit(2), Mode::Shared)] {
        let mut store = Store::new();
        store.take(1, held);
        store.take(2, held);
        assert!(matches!(store.take(3, asked), Reply::Refused(Refusal::Mismatch { .. })));
        assert!(is_granted(&store.after(TTL_MS + 1).take(3, asked)), "{held:?}");
    }
}

#[test]
fn of_waiters_that_have_died_before_the_clock_was_set_back_none_costs_a_claim_window() {
    let mut store = Store::held();
    for dead in 2..12 {
        store.take(dead, Mode::Exclusive);
    }
    store.now_ms -= 100_000;
    store.take(12, Mode::Exclusive);
    assert_eq!(store.end(1), [12]);
}

#[test]
fn a_look_shows_no_hold_that_has_ended() {
    let mut store = Store::new();
    for reader in 1..5 {
        store.take(reader, Mode::Shared);
    }
    store.after(TTL_MS / 2);
    let token = token(&store.take(5, Mode::Shared));
    store.after(TTL_MS / 2 + 1);
    let status = store.look();
    let seen: Vec<_> = status.holders.iter().map(|holder| (holder.id, holder.token)).collect();
    assert_eq!(seen, [(id(5), Some(leasehold_core::FencingToken::from_micros(token)))]);
    assert_eq!(status.holders[0].held_for, span(TTL_MS / 2 + 1));
}

#[test]
fn tokens_grow_whatever_the_clock_does_and_are_not_behind_it() {
    let mut store = Store::new();
    let first = token(&store.take(1, Mode::Exclusive));
    assert_eq!(first, store.now().token_us);
    store.end(1);
    store.now_ms -= 500_000;
    let second = token(&store.take(2, Mode::Exclusive));
    assert_eq!(second, first + 1);
    store.end(2);
    store.now_ms += 900_000;
    assert_eq!(token(&store.take(3, Mode::Exclusive)), store.now().token_us);
}
