//! The table of a keeper that nobody drives: when its work is due, and which lease is in the way of
//! a call.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::renewal::Renewing;
use leasehold_core::{
    FakeClock, FencingToken, Grant, HolderInfo, Instant, LockName, LossReason, Mode, Place,
    Renewal, Request, StoreError, StoreErrorKind,
};

use super::{Attempt, SLICE, TTL, answered, call, id, keeper};
use crate::keeper::handoff::Handoff;
use crate::keeper::lease::LeaseState;
use crate::keeper::run::Due;
use crate::keeper::state::{Keeper, Waiter};
use crate::lost::Signal;

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(seconds))
}

fn idle_keeper() -> Arc<Keeper> {
    keeper(&FakeClock::new(), SLICE)
}

fn attempt(number: u64, on: &str, mode: Mode) -> Attempt {
    let request = Request::new(id(number), mode, HolderInfo::default());
    Attempt { name: name(on), request, joins: false, ..call(number) }
}

/// Adds a lease that was granted at 0 s.
fn add_lease(
    keeper: &Keeper,
    number: u64,
    on: &str,
    mode: Mode,
    handoff: Handoff,
) -> Arc<LeaseState> {
    let until = at(0) + TTL;
    let renewing = Renewing::new(TTL, Renewal::Auto, until, at(0), number);
    let signal = Signal::new(Arc::new(FakeClock::new()), until);
    let token = FencingToken::from_micros(number);
    let state = LeaseState::new(attempt(number, on, mode), Grant::new(token), signal, at(0));
    keeper.table().leases.add(Arc::clone(&state), renewing, handoff);
    state
}

fn add_waiter(keeper: &Keeper, number: u64, on: &str) {
    let (waiter, _) = Waiter::new(&attempt(number, on, Mode::Exclusive));
    keeper.table().queues.asking.insert(id(number), waiter);
}

/// Queues a waiter at 0 s, to be polled for within `retry_after`.
fn queue(keeper: &Keeper, attempt: u64, ahead: u32, retry_after: Duration) {
    let place = Place::new(attempt, ahead, retry_after);
    keeper.table().queues.queued(&answered(attempt, None), place, at(0)).unwrap();
}

fn take_due(keeper: &Arc<Keeper>, now: Instant) -> Due {
    keeper.take_due(&mut keeper.table(), now)
}

fn next_due(keeper: &Keeper) -> Option<Instant> {
    let table = keeper.table();
    [table.leases.next_due(), table.queues.next_due()].into_iter().flatten().min()
}

fn polled(due: &Due) -> Vec<u64> {
    due.polls.iter().map(|poll| poll.take.request.id.attempt).collect()
}

#[test]
fn a_lease_is_renewed_once_after_a_third_of_its_ttl_and_lost_at_its_end() {
    let keeper = idle_keeper();
    add_lease(&keeper, 1, "a", Mode::Exclusive, Handoff::Done);
    assert!(take_due(&keeper, at(8)).leases.renewals.is_empty());
    assert_eq!(take_due(&keeper, at(12)).leases.renewals.len(), 1);
    assert!(take_due(&keeper, at(13)).leases.renewals.is_empty(), "it is in flight");
    assert_eq!(next_due(&keeper), Some(at(0) + TTL));
    let lost = take_due(&keeper, at(30)).leases.lost;
    assert_eq!(lost.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [LossReason::Expired]);
    assert!(keeper.table().is_idle());
}

#[test]
fn a_grant_that_nobody_fetches_is_due_to_be_given_back_and_a_delivered_one_is_not() {
    let keeper = idle_keeper();
    let [first, second] = [1, 2].map(|attempt| {
        let handoff = Handoff::Waiting { until: at(2) };
        add_lease(&keeper, attempt, "a", Mode::Exclusive, handoff)
    });
    assert!(keeper.table().leases.mark_delivered([&second].into_iter(), None).is_some());
    let unfetched = take_due(&keeper, at(2)).unfetched;
    assert_eq!(unfetched.iter().map(|(state, _)| state.id).collect::<Vec<_>>(), [id(1)]);
    assert!(keeper.table().leases.mark_delivered([&first].into_iter(), None).is_none());
    assert!(keeper.table().leases.get(id(2)).is_some());
}

#[test]
fn of_several_leases_none_is_delivered_if_one_is_not_kept_any_more() {
    let keeper = idle_keeper();
    let [first, second] = [1, 2].map(|attempt| {
        let handoff = Handoff::Waiting { until: at(2) };
        add_lease(&keeper, attempt, "a", Mode::Exclusive, handoff)
    });
    keeper.table().leases.remove(&second);
    assert!(keeper.table().leases.mark_delivered([&first, &second].into_iter(), None).is_none());
    assert_eq!(take_due(&keeper, at(2)).unfetched.len(), 1);
}

#[test]
fn only_leases_of_the_same_name_are_in_the_way() {
    let keeper = idle_keeper();
    let first = add_lease(&keeper, 1, "a", Mode::Shared, Handoff::Done);
    add_lease(&keeper, 2, "b", Mode::Exclusive, Handoff::Done);
    let in_the_way = |keeper: &Keeper, on, mode, is_queued| {
        keeper.own_in_the_way(&name(on), mode, is_queued, None)
    };
    let token = |attempt| Some(FencingToken::from_micros(attempt));
    assert_eq!(in_the_way(&keeper, "a", Mode::Exclusive, false), token(1));
    assert_eq!(in_the_way(&keeper, "a", Mode::Shared, false), None);
    assert_eq!(in_the_way(&keeper, "a", Mode::Shared, true), token(1), "behind a writer");
    assert_eq!(in_the_way(&keeper, "b", Mode::Shared, false), token(2));
    assert_eq!(in_the_way(&keeper, "aa", Mode::Exclusive, false), None);
    let removed = [(); 2].map(|()| keeper.table().leases.remove(&first).is_some());
    assert_eq!(removed, [true, false]);
    assert_eq!(in_the_way(&keeper, "a", Mode::Exclusive, false), None);
}

#[test]
fn own_permits_are_in_the_way_only_if_they_leave_too_few() {
    let keeper = idle_keeper();
    add_lease(&keeper, 1, "a", Mode::Permits { count: 2, capacity: 3 }, Handoff::Done);
    let blocks = |count| {
        let mode = Mode::Permits { count, capacity: 3 };
        keeper.own_in_the_way(&name("a"), mode, true, None).is_some()
    };
    assert!(!blocks(1) && blocks(2));
}

#[test]
fn when_messages_may_be_lost_all_leases_are_renewed_within_a_second() {
    let keeper = idle_keeper();
    for attempt in 1..=3 {
        add_lease(&keeper, attempt, "a", Mode::Shared, Handoff::Done);
    }
    keeper.table().leases.renew_all(at(1));
    assert_eq!(take_due(&keeper, at(2)).leases.renewals.len(), 3);
}

/// The store passes over a waiter that has not asked for too long.
#[test]
fn all_waiters_of_a_name_are_polled_together_and_one_poll_of_each_at_a_time() {
    let keeper = idle_keeper();
    for attempt in [1, 2] {
        add_waiter(&keeper, attempt, "a");
        queue(&keeper, attempt, attempt as u32 - 1, Duration::from_millis(500));
    }
    assert!(polled(&take_due(&keeper, at(0))).is_empty());
    assert_eq!(polled(&take_due(&keeper, at(1))), [1, 2]);
    assert!(polled(&take_due(&keeper, at(5))).is_empty(), "no answer yet");
    assert_eq!(next_due(&keeper), None);
}

#[test]
fn of_several_answers_the_one_that_asks_for_the_earliest_poll_counts() {
    let keeper = idle_keeper();
    for attempt in [1, 2] {
        add_waiter(&keeper, attempt, "a");
        queue(&keeper, attempt, attempt as u32 - 1, Duration::from_millis(500));
    }
    assert_eq!(polled(&take_due(&keeper, at(1))), [1, 2]);
    for (attempt, retry_after) in [(1, Duration::from_millis(100)), (2, Duration::from_secs(1))] {
        let place = Place::new(attempt, attempt as u32 - 1, retry_after);
        keeper.table().queues.still_waiting(&name("a"), id(attempt), place, at(1));
        keeper.table().queues.answered(id(attempt));
    }
    assert_eq!(polled(&take_due(&keeper, at(1) + Duration::from_millis(200))), [1, 2]);
}

/// The waiter before it may be dead, and the message with its own grant may have been lost.
#[test]
fn a_waiter_that_is_not_the_first_in_the_queue_is_polled_for_too() {
    let keeper = idle_keeper();
    add_waiter(&keeper, 2, "a");
    queue(&keeper, 2, 1, Duration::from_secs(2));
    assert_eq!(polled(&take_due(&keeper, at(2))), [2]);
}

#[test]
fn a_grant_announced_while_a_poll_is_in_flight_is_polled_for_again_after_its_answer() {
    let keeper = idle_keeper();
    add_waiter(&keeper, 1, "a");
    keeper.table().queues.announced(id(1));
    assert!(polled(&take_due(&keeper, at(0))).is_empty(), "its acquire is not answered yet");
    queue(&keeper, 1, 0, Duration::from_millis(500));
    assert_eq!(polled(&take_due(&keeper, at(0))), [1]);
    keeper.table().queues.announced(id(1));
    assert!(polled(&take_due(&keeper, at(0))).is_empty());
    keeper.table().queues.answered(id(1));
    assert_eq!(polled(&take_due(&keeper, at(0))), [1]);
}

/// A caller of a line was not polled for seconds, and another one asked in its place. Both are
/// answered, one after the other.
#[test]
fn a_waiter_that_the_store_counted_as_dead_in_between_has_the_newer_of_two_places_only() {
    let keeper = idle_keeper();
    for attempt in [1, 9] {
        add_waiter(&keeper, attempt, "a");
    }
    queue(&keeper, 9, 0, Duration::from_millis(500));
    for sequence in [1, 20] {
        let place = Place::new(sequence, 0, Duration::from_millis(500));
        keeper.table().queues.queued(&answered(1, None), place, at(0)).unwrap();
    }
    assert!(keeper.table().queues.take(id(1)).is_some());
    assert_eq!(polled(&take_due(&keeper, at(1))), [9], "nobody has the other place");
}

#[test]
fn the_last_waiter_of_a_name_takes_its_polls_and_failures_with_it() {
    let keeper = idle_keeper();
    add_waiter(&keeper, 1, "a");
    queue(&keeper, 1, 0, Duration::from_millis(500));
    take_due(&keeper, at(1));
    let error = StoreError::new(StoreErrorKind::Unreachable, "away");
    assert!(keeper.table().queues.poll_later(&name("a"), &error, at(1)));
    assert!(keeper.table().queues.failure(&name("a")).is_some() && next_due(&keeper).is_some());
    keeper.table().queues.take(id(1)).unwrap();
    assert!(keeper.table().queues.failure(&name("a")).is_none() && keeper.table().is_idle());
    assert_eq!(next_due(&keeper), None);
}
