//! Tests of the picture, with looks at made-up times.

use std::time::Duration;

use leasehold::FencingToken;
use leasehold::admin::{ClientId, Holder, HolderId, HolderInfo, LastHolder, Status, Waiter};
use leasehold::error::StoreError;
use leasehold::lease::Mode;

use super::*;

/// The start of each test, in milliseconds since 1970.
const START_MS: u64 = 1_800_000_000_000;

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn held(client: u128, token: u64, seconds: u64) -> Status {
    let token = FencingToken::from_number(token).unwrap();
    let holder = Holder::new(id(client), Mode::Exclusive, Some(token))
        .with_info(HolderInfo::new("vm", client as u32))
        .with_held_for(Duration::from_secs(seconds));
    Status::default().with_holders(vec![holder])
}

fn awaited(status: Status, clients: &[u128], seconds: u64) -> Status {
    let wait = |client: &u128| {
        let waited = Duration::from_secs(seconds);
        Waiter::new(id(*client), Mode::Exclusive, HolderInfo::new("vm", 1), waited, 1)
    };
    let waiters: Vec<_> = clients.iter().map(wait).collect();
    let waiting = waiters.len() as u32;
    status.with_waiters(waiters).with_waiting(waiting)
}

#[test]
fn a_history_has_each_hold_with_its_times_and_each_length_of_the_queue() {
    let (mut picture, x) = (Picture::new(Vec::new()), name("x"));
    picture.saw(&x, Ok(awaited(held(1, 5, 3), &[2], 1)), START_MS + 10_000);
    picture.saw(&x, Ok(awaited(held(1, 5, 4), &[2], 2)), START_MS + 11_000);
    picture.saw(&x, Ok(held(2, 6, 1)), START_MS + 13_000);
    picture.saw(&x, Ok(Status::default()), START_MS + 15_000);
    let history = &picture.rows.get(&x).unwrap().history;
    let bars: Vec<_> = history
        .bars
        .iter()
        .map(|bar| (bar.who.info.pid, bar.from_ms - START_MS, bar.to_ms.unwrap() - START_MS))
        .collect();
    assert_eq!(bars, [(1, 7_000, 12_000), (2, 12_000, 15_000)]);
    let queue: Vec<_> = history.queue.iter().map(|(at, n)| (at - START_MS, *n)).collect();
    assert_eq!(queue, [(10_000, 1), (13_000, 0)]);
}

#[test]
fn a_row_tells_since_when_it_is_held_and_awaited_and_how_old_it_is() {
    let (mut picture, x) = (Picture::new(Vec::new()), name("x"));
    picture.saw(&x, Ok(awaited(held(1, 5, 30), &[2, 3], 9)), START_MS);
    let row = picture.rows.get(&x).unwrap();
    assert_eq!(row.held_since_ms(), Some(START_MS - 30_000));
    assert_eq!(row.waited_since_ms(), Some(START_MS - 9_000));
    assert_eq!(row.age(START_MS + 4_000), Duration::from_secs(4));
    let totals = picture.totals();
    assert_eq!((totals.held, totals.awaited, totals.waiting), (1, 1, 2));
    assert_eq!(totals.waited_since_ms, Some(START_MS - 9_000));
    assert_eq!(totals.oldest_look_ms, Some(START_MS));
}

#[test]
fn a_list_has_what_was_selected_in_the_order_that_was_asked_for() {
    let mut picture = Picture::new(Vec::new());
    picture.saw(&name("a"), Ok(held(1, 1, 5)), START_MS);
    picture.saw(&name("b"), Ok(awaited(held(2, 2, 1), &[3, 4], 1)), START_MS);
    picture.saw(&name("c"), Ok(awaited(held(3, 3, 9), &[2], 4)), START_MS);
    picture.saw(&name("free"), Ok(Status::default()), START_MS);
    let names = |selection: Selection| -> Vec<&str> {
        picture.list(&selection).iter().map(|(name, _)| name.as_str()).collect()
    };
    let by = |order| names(Selection { order, ..Selection::default() });
    assert_eq!(by(Order::Longest), ["c", "b", "a"]);
    assert_eq!(by(Order::Waiting), ["b", "c", "a"]);
    assert_eq!(by(Order::Held), ["c", "a", "b"]);
    assert_eq!(by(Order::Name), ["a", "b", "c"]);
    let (has_free, prefix) = (true, "f".to_owned());
    assert_eq!(names(Selection { has_free, prefix, ..Selection::default() }), ["free"]);
    let with = |text: &str| names(Selection { text: text.to_owned(), ..Selection::default() });
    assert_eq!((with("B").len(), with("VM").len(), with("free").len()), (1, 3, 0));
}

#[test]
fn awaited_names_are_looked_at_twice_as_often_as_held_ones_and_idle_ones_not_at_all() {
    let mut picture = Picture::new(Vec::new());
    let (awaited_name, held_name, idle) = (name("awaited"), name("held"), name("idle"));
    picture.saw(&awaited_name, Ok(awaited(held(1, 1, 1), &[2], 1)), START_MS);
    picture.saw(&held_name, Ok(held(1, 1, 1)), START_MS);
    picture.saw(&idle, Ok(Status::default()), START_MS);
    assert_eq!(picture.take_due(START_MS + 999, 10), []);
    assert_eq!(picture.take_due(START_MS + 1_000, 10), [awaited_name]);
    assert_eq!(picture.take_due(START_MS + 2_000, 10), [held_name]);
    // A name that is found again is due immediately.
    picture.found(vec![idle.clone()], START_MS + 2_500);
    assert_eq!(picture.take_due(START_MS + 2_500, 10), [idle]);
}

#[test]
fn more_names_than_the_budget_has_room_for_are_looked_at_less_often_but_all_of_them() {
    let mut picture = Picture::new(Vec::new());
    let names: Vec<_> = (0..1000).map(|number| name(&format!("n{number:03}"))).collect();
    picture.found(names.clone(), START_MS);
    let mut looks = vec![0_u32; names.len()];
    for second in 0..60 {
        let now_ms = START_MS + second * 1000;
        for name in picture.take_due(now_ms, 100) {
            looks[names.iter().position(|other| *other == name).unwrap()] += 1;
            picture.saw(&name, Ok(held(1, 1, 1)), now_ms);
        }
    }
    let (least, most) = (looks.iter().min().unwrap(), looks.iter().max().unwrap());
    assert!((3..=7).contains(least) && (3..=8).contains(most), "{least} to {most} looks");
}

#[test]
fn what_nobody_uses_any_more_is_forgotten_with_its_timeline() {
    let (mut picture, x) = (Picture::new(Vec::new()), name("x"));
    picture.saw(&x, Ok(held(1, 1, 1)), START_MS);
    picture.saw(&x, Ok(Status::default()), START_MS + 1_000);
    picture.round_begins(START_MS + SPAN_MS + 500);
    assert!(picture.rows.contains_key(&x));
    picture.round_begins(START_MS + SPAN_MS + 2_000);
    assert!(!picture.rows.contains_key(&x));
    assert_eq!(picture.next_due_ms(), u64::MAX);
}

#[test]
fn an_outage_is_known_with_its_beginning() {
    let mut picture = Picture::new(Vec::new());
    picture.note_there();
    let trouble = |kind, why: &str| Error::from(StoreError::new(kind, why));
    let refused = trouble(StoreErrorKind::Unreachable, "refused");
    picture.note_trouble(&refused, START_MS);
    picture.note_trouble(&trouble(StoreErrorKind::Timeout, "no answer"), START_MS + 2);
    let Availability { away_since_ms, why, .. } = &picture.store;
    assert_eq!((*away_since_ms, why.as_deref()), (Some(START_MS), Some("no answer")));
    picture.note_there();
    // A refusal does not count as a store that is away.
    let lacking = trouble(StoreErrorKind::Denied, "no right to scan");
    picture.note_trouble(&lacking, START_MS + 3);
    let Availability { is_denied, why, .. } = &picture.store;
    assert_eq!((*is_denied, why.as_deref()), (true, Some("no right to scan")));
}

#[test]
fn a_name_that_cannot_be_read_is_counted_apart_and_its_hold_goes_on_when_it_can_again() {
    let (mut picture, x) = (Picture::new(Vec::new()), name("x"));
    picture.saw(&x, Ok(held(1, 5, 30)), START_MS);
    let why = || StoreError::new(StoreErrorKind::Version, "x: written by another release");
    picture.saw(&x, Err(why()), START_MS + 1_000);
    let totals = picture.totals();
    assert_eq!((totals.unreadable, totals.held, totals.held_since_ms), (1, 0, None));
    let row = picture.rows.get(&x).unwrap();
    assert!(row.is_used() && row.unreadable.is_some());
    let bars = |picture: &Picture| -> Vec<_> {
        let bars = picture.rows.get(&x).unwrap().history.bars.iter();
        bars.map(|bar| bar.to_ms.map(|to_ms| to_ms - START_MS)).collect()
    };
    picture.saw(&x, Ok(held(1, 5, 33)), START_MS + 3_000);
    assert_eq!((picture.totals().unreadable, bars(&picture)), (0, vec![None]));
    picture.saw(&x, Err(why()), START_MS + 4_000);
    picture.saw(&x, Ok(Status::default()), START_MS + 5_000);
    assert_eq!(bars(&picture), [Some(5_000)], "it was let go meanwhile");
}

#[test]
fn what_was_not_seen_may_be_there_until_every_key_was_come_by_and_every_name_looked_at() {
    let (mut picture, x) = (Picture::new(Vec::new()), name("x"));
    assert_eq!((picture.is_whole, picture.keys_so_far()), (false, Some(0)));
    picture.round_begins(START_MS);
    picture.passed(500);
    picture.note_whole();
    assert_eq!(picture.keys_so_far(), Some(500));
    // A walk that was broken off begins again from the start.
    picture.round_begins(START_MS + 1_000);
    assert_eq!(picture.keys_so_far(), Some(0));
    picture.passed(700);
    picture.found(vec![x.clone()], START_MS + 1_000);
    picture.round_ends(START_MS + 2_000);
    picture.note_whole();
    assert!(!picture.is_whole, "a name was found and not looked at");
    picture.saw(&x, Ok(held(1, 5, 3)), START_MS + 2_000);
    picture.note_whole();
    assert_eq!((picture.walks, picture.keys_so_far()), (1, None));
    // The picture stays whole while a new name waits for its first look.
    picture.found(vec![name("y")], START_MS + 3_000);
    picture.note_whole();
    assert!(picture.is_whole);
}

/// The status of a free lock whose last hold had this number, and was released some seconds ago.
fn given_back(number: u128, seconds: u64) -> Status {
    let token = FencingToken::from_micros(1_800_000_000_000_000);
    let ago = Duration::from_secs(seconds);
    let last = LastHolder::new(id(number), token, HolderInfo::default(), ago);
    Status::default().with_last_holder(Some(last))
}

#[test]
fn when_a_kept_name_was_given_back_is_known_after_the_store_has_forgotten_it() {
    let mut picture = Picture::new(vec!["job/".to_owned()]);
    let (job, other) = (name("job/x"), name("other"));
    for of in [&job, &other] {
        picture.saw(of, Ok(held(1, 5, 3)), START_MS);
        picture.saw(of, Ok(given_back(5, 2)), START_MS + 10_000);
        picture.saw(of, Ok(given_back(5, 3)), START_MS + 11_001);
    }
    let released = |picture: &Picture, of| picture.rows.get(of).map(Row::released_ms);
    assert_eq!(released(&picture, &job), Some(Some(START_MS + 8_000)), "it does not waver");
    // The store has forgotten it.
    picture.saw(&job, Ok(Status::default()), START_MS + 30_000);
    let later_ms = START_MS + 2 * SPAN_MS;
    picture.round_begins(later_ms);
    assert_eq!(released(&picture, &job), Some(Some(START_MS + 8_000)));
    assert_eq!(released(&picture, &other), None, "nobody asked for it");
    // The name is looked at while it is free, so a short job is seen, too.
    picture.saw(&job, Ok(Status::default()), later_ms);
    assert_eq!(picture.take_due(later_ms + KEPT_MS - 1, 9), []);
    assert_eq!(picture.take_due(later_ms + KEPT_MS, 9), std::slice::from_ref(&job));
    picture.saw(&job, Ok(given_back(7, 1)), later_ms + KEPT_MS);
    assert_eq!(released(&picture, &job), Some(Some(later_ms + KEPT_MS - 1_000)));
}
