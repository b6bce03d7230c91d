//! The table of a keeper, without a keeper: what is due when, and what is in the way of what.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::renewal::Renewing;
use leasehold_core::{
    ClientId, FakeClock, FencingToken, HolderId, Instant, LeaseOptions, LockName, LossReason, Mode,
    Place, Renewal, StoreError, StoreErrorKind,
};
use tokio::sync::oneshot;

use super::{Due, Poll, Polling, Table, Waiter};
use crate::keeper::delivery::Delivery;
use crate::keeper::lease::{Granted, LeaseState};
use crate::lost::Signal;

const TTL: Duration = Duration::from_secs(30);

fn id(attempt: u64) -> HolderId {
    HolderId { client: ClientId(1), attempt }
}

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(seconds))
}

fn table() -> Table<()> {
    Table::new(1, Duration::from_millis(5))
}

/// Adds a lease that was granted at 0 s.
fn add_lease(
    table: &mut Table<()>,
    attempt: u64,
    on: &str,
    mode: Mode,
    delivery: Delivery,
) -> Arc<LeaseState> {
    let granted = Granted {
        name: name(on),
        id: id(attempt),
        mode,
        options: LeaseOptions::default(),
        unanswered: false,
        token: FencingToken::from_micros(attempt),
        valid_until: at(0) + TTL,
        confirmed: true,
        delivery: Delivery::Done,
        joins: false,
        ticket: None,
    };
    let renewing = Renewing::new(TTL, Renewal::Auto, granted.valid_until, at(0), attempt);
    let signal = Signal::new(Arc::new(FakeClock::new()), granted.valid_until);
    let state = Arc::new(LeaseState::new(granted, signal, at(0)));
    table.leases.add(Arc::clone(&state), renewing, delivery);
    state
}

fn add_waiter(table: &mut Table<()>, attempt: u64, on: &str) {
    table.waiters.add(Waiter {
        name: name(on),
        id: id(attempt),
        nonce: attempt,
        mode: Mode::Exclusive,
        options: LeaseOptions::default(),
        turn: oneshot::channel().0,
        pulse: None,
        unanswered: true,
        polling: Polling::default(),
        joins: false,
        ticket: None,
    });
}

/// The waiter joins the queue at 0 s, to be polled for within `retry_after`.
fn join(table: &mut Table<()>, attempt: u64, ahead: u32, retry_after: Duration) {
    let place = Place::new(attempt, ahead, retry_after);
    table.waiters.joined(id(attempt), place, false, at(0)).unwrap();
}

fn polled(due: &Due<()>) -> Vec<u64> {
    due.polls.iter().map(|poll: &Poll| poll.id.attempt).collect()
}

#[test]
fn a_lease_is_renewed_once_after_a_third_of_its_ttl_and_lost_at_its_end() {
    let mut table = table();
    add_lease(&mut table, 1, "a", Mode::Exclusive, Delivery::Done);
    assert!(table.take_due(at(8)).leases.renewals.is_empty());
    assert_eq!(table.take_due(at(12)).leases.renewals.len(), 1);
    assert!(table.take_due(at(13)).leases.renewals.is_empty(), "it is in flight");
    assert_eq!(table.next_due(), Some(at(0) + TTL));
    let lost = table.take_due(at(30)).leases.lost;
    assert_eq!(lost.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [LossReason::Expired]);
    assert!(table.is_idle());
}

#[test]
fn a_grant_that_nobody_fetches_is_due_to_be_given_back_and_a_delivered_one_is_not() {
    let mut table = table();
    let [first, second] = [1, 2].map(|attempt| {
        let delivery = Delivery::Waiting { until: at(2) };
        add_lease(&mut table, attempt, "a", Mode::Exclusive, delivery)
    });
    assert!(table.leases.mark_delivered([&second].into_iter(), None).is_some());
    let unfetched = table.take_due(at(2)).unfetched;
    assert_eq!(unfetched.iter().map(|(state, _)| state.id).collect::<Vec<_>>(), [id(1)]);
    assert!(table.leases.mark_delivered([&first].into_iter(), None).is_none());
    assert!(table.leases.get(id(2)).is_some());
}

#[test]
fn of_several_leases_none_is_delivered_if_one_is_not_kept_any_more() {
    let mut table = table();
    let [first, second] = [1, 2].map(|attempt| {
        let delivery = Delivery::Waiting { until: at(2) };
        add_lease(&mut table, attempt, "a", Mode::Exclusive, delivery)
    });
    table.leases.remove(&second);
    assert!(table.leases.mark_delivered([&first, &second].into_iter(), None).is_none());
    assert_eq!(table.take_due(at(2)).unfetched.len(), 1);
}

#[test]
fn only_leases_of_the_same_name_are_in_the_way() {
    let mut table = table();
    let first = add_lease(&mut table, 1, "a", Mode::Shared, Delivery::Done);
    add_lease(&mut table, 2, "b", Mode::Exclusive, Delivery::Done);
    let in_the_way = |table: &Table<()>, on, mode, is_queued| {
        table.leases.own_in_the_way(&name(on), mode, is_queued)
    };
    let token = |attempt| Some(FencingToken::from_micros(attempt));
    assert_eq!(in_the_way(&table, "a", Mode::Exclusive, false), token(1));
    assert_eq!(in_the_way(&table, "a", Mode::Shared, false), None);
    assert_eq!(in_the_way(&table, "a", Mode::Shared, true), token(1), "behind a writer");
    assert_eq!(in_the_way(&table, "b", Mode::Shared, false), token(2));
    assert_eq!(in_the_way(&table, "aa", Mode::Exclusive, false), None);
    let removed = [(); 2].map(|()| table.leases.remove(&first).is_some());
    assert_eq!(removed, [true, false]);
    assert_eq!(in_the_way(&table, "a", Mode::Exclusive, false), None);
}

#[test]
fn permits_of_ones_own_are_in_the_way_only_if_they_leave_too_few() {
    let mut table = table();
    add_lease(&mut table, 1, "a", Mode::Permits { count: 2, capacity: 3 }, Delivery::Done);
    let blocks = |count| {
        let mode = Mode::Permits { count, capacity: 3 };
        table.leases.own_in_the_way(&name("a"), mode, true).is_some()
    };
    assert!(!blocks(1) && blocks(2));
}

#[test]
fn when_messages_may_be_lost_all_leases_are_renewed_within_a_second() {
    let mut table = table();
    for attempt in 1..=3 {
        add_lease(&mut table, attempt, "a", Mode::Shared, Delivery::Done);
    }
    table.leases.renew_all(at(1));
    assert_eq!(table.take_due(at(2)).leases.renewals.len(), 3);
}

#[test]
fn a_name_is_polled_in_the_name_of_its_first_waiter_and_one_poll_at_a_time() {
    let mut table = table();
    for attempt in [1, 2] {
        add_waiter(&mut table, attempt, "a");
        join(&mut table, attempt, attempt as u32 - 1, Duration::from_millis(500));
    }
    assert!(polled(&table.take_due(at(0))).is_empty());
    assert_eq!(polled(&table.take_due(at(1))), [1]);
    assert!(polled(&table.take_due(at(5))).is_empty(), "no answer yet");
    assert_eq!(table.next_due(), None);
}

/// Whoever is before it may be dead, and its message may have been lost.
#[test]
fn a_waiter_that_is_not_the_first_in_the_queue_is_polled_for_too() {
    let mut table = table();
    add_waiter(&mut table, 2, "a");
    join(&mut table, 2, 1, Duration::from_secs(2));
    assert_eq!(polled(&table.take_due(at(2))), [2]);
}

#[test]
fn the_waiters_behind_one_that_has_lost_its_place_are_rechecked_one_by_one() {
    let mut table = table();
    for attempt in 1..=3 {
        add_waiter(&mut table, attempt, "a");
        join(&mut table, attempt, attempt as u32 - 1, Duration::from_millis(500));
    }
    assert_eq!(polled(&table.take_due(at(1))), [1]);
    table.waiters.take(id(1)).unwrap();
    table.waiters.recheck_all(&name("a"), at(1));
    assert_eq!(polled(&table.take_due(at(1))), [2]);
    table.waiters.take(id(2)).unwrap();
    table.waiters.recheck_all(&name("a"), at(1));
    assert_eq!(polled(&table.take_due(at(1))), [3]);
}

#[test]
fn a_grant_announced_while_a_poll_is_in_flight_is_polled_for_again_after_its_answer() {
    let mut table = table();
    add_waiter(&mut table, 1, "a");
    table.waiters.announced(id(1));
    assert!(polled(&table.take_due(at(0))).is_empty(), "its acquire is not answered yet");
    join(&mut table, 1, 0, Duration::from_millis(500));
    assert_eq!(polled(&table.take_due(at(0))), [1]);
    table.waiters.announced(id(1));
    assert!(polled(&table.take_due(at(0))).is_empty());
    table.waiters.answered(id(1));
    assert_eq!(polled(&table.take_due(at(0))), [1]);
}

/// One caller of a line that was not polled for seconds, and the one that was asked in its place,
/// are answered after each other.
#[test]
fn a_waiter_that_the_store_counted_as_dead_in_between_has_the_newer_of_two_places_only() {
    let mut table = table();
    for attempt in [1, 9] {
        add_waiter(&mut table, attempt, "a");
    }
    join(&mut table, 9, 0, Duration::from_millis(500));
    for sequence in [1, 20] {
        let place = Place::new(sequence, 0, Duration::from_millis(500));
        table.waiters.joined(id(1), place, false, at(0)).unwrap();
    }
    assert!(table.waiters.take(id(1)).is_some());
    assert_eq!(polled(&table.take_due(at(1))), [9], "nobody has the other place");
}

#[test]
fn the_last_waiter_of_a_name_takes_its_polls_and_failures_with_it() {
    let mut table = table();
    add_waiter(&mut table, 1, "a");
    join(&mut table, 1, 0, Duration::from_millis(500));
    table.take_due(at(1));
    let error = StoreError::new(StoreErrorKind::Unreachable, "away");
    assert_eq!(table.waiters.poll_later(&name("a"), &error, at(1)), Some(Duration::ZERO));
    assert!(table.waiters.failure(&name("a")).is_some() && table.next_due().is_some());
    table.waiters.take(id(1)).unwrap();
    assert!(table.waiters.failure(&name("a")).is_none() && table.is_idle());
    assert_eq!(table.next_due(), None);
}
