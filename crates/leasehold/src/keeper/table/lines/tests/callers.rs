//! Who stands where, who asks, and what becomes of a place that is given up.

use std::time::Duration;

use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{Mode, Place, Renewal};
use tokio::sync::oneshot;

use super::{SLICE, Scene, TTL, asks, call, has_lease, id, name, start, waits};
use crate::keeper::table::lines::{Begun, Left};
use crate::keeper::table::{Turn, Waiter};

#[test]
fn of_those_who_ask_for_the_same_only_the_first_asks_the_store() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let begun = scene.0.begin(call(2).0, true, start());
    assert!(matches!(begun, Begun::Behind { ahead: 1, own: None, .. }), "{begun:?}");
    assert!(scene.0.waiters.get(id(2)).is_none(), "nobody polls for it");
    scene.grant(1, Some(ticket), start());
    let begun = scene.0.begin(call(3).0, true, start());
    let Begun::Behind { ahead: 1, own: Some(own), .. } = begun else { panic!("{begun:?}") };
    assert_eq!(own, id(1));
}

#[test]
fn a_try_is_busy_while_somebody_of_its_client_holds_or_asks() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    assert!(matches!(scene.0.begin(call(2).0, false, start()), Begun::Busy));
    let state = scene.grant(1, Some(ticket), start());
    assert!(matches!(scene.0.begin(call(3).0, false, start()), Begun::Busy));
    scene.release(&state, start());
    let begun = scene.0.begin(call(4).0, false, start());
    assert!(matches!(begun, Begun::Asks { ticket: None, release: None }), "{begun:?}");
}

#[test]
fn whoever_limits_how_long_it_is_held_or_asks_for_something_else_is_a_stranger_to_the_line() {
    type Change = fn(&mut Waiter<()>);
    let strangers: [Change; 7] = [
        |call| call.options.min_hold = Some(SLICE),
        |call| call.options.max_hold = Some(TTL),
        |call| call.options.renewal = Renewal::Off,
        |call| call.options.ttl = TTL * 2,
        |call| call.options.min_validity = Some(SLICE),
        |call| call.mode = Mode::Shared,
        |call| call.joins = false,
    ];
    for (number, change) in strangers.into_iter().enumerate() {
        let mut scene = Scene::new(SLICE);
        let state = scene.held();
        let (mut stranger, mut receiver) = call(2);
        change(&mut stranger);
        let begun = scene.0.begin(stranger, true, start());
        assert!(matches!(begun, Begun::Asks { ticket: None, .. }), "{number}: {begun:?}");
        let (_, mut next) = scene.behind(3);
        scene.pass_on(&state, start());
        assert!(waits(&mut receiver) && has_lease(&mut next), "{number}");
    }
}

#[test]
fn without_a_slice_there_are_no_lines() {
    let mut scene = Scene::new(Duration::ZERO);
    for attempt in 1..3 {
        let begun = scene.0.begin(call(attempt).0, true, start());
        assert!(matches!(begun, Begun::Asks { ticket: None, .. }), "{begun:?}");
    }
}

#[test]
fn the_next_in_line_takes_over_the_attempt_of_the_first_who_gives_up() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (second_ticket, mut second) = scene.behind(2);
    scene.leave_to_the_next(ticket, 1);
    let mut ask = asks(&mut second);
    assert_eq!((ask.id, ask.nonce, ask.is_known, ask.yields), (id(1), 1, true, false));
    let (_, mut third) = scene.behind(3);
    scene.leave_to_the_next(second_ticket, 1);
    assert!(ask.turn.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
    assert_eq!(asks(&mut third).id, id(1));
}

#[test]
fn whoever_takes_over_a_place_in_the_stores_queue_has_only_to_wait() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let place = Place::new(7, 1, Duration::from_secs(1));
    scene.0.waiters.joined(id(1), place, false, start()).unwrap();
    let (_, mut second) = scene.behind(2);
    scene.leave_to_the_next(ticket, 1);
    assert!(waits(&mut second));
    let waiter = scene.0.waiters.take(id(1)).unwrap();
    assert!(waiter.turn.send(Turn::Granted(())).is_ok() && has_lease(&mut second));
}

#[test]
fn only_an_empty_line_cancels_its_attempt() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (second_ticket, mut second) = scene.behind(2);
    scene.leave_to_the_next(ticket, 1);
    drop(asks(&mut second));
    match scene.leave(second_ticket, 1) {
        Left::Own(waiter) => assert_eq!(waiter.id, id(1), "that of whoever asked first"),
        other => panic!("{other:?}"),
    }
    assert!(scene.0.is_idle());
    scene.first(3);
}

#[test]
fn whoever_gives_up_in_the_middle_leaves_the_others_in_their_order() {
    let mut scene = Scene::new(SLICE);
    let mut state = scene.held();
    let mut calls: Vec<_> = (2..6).map(|attempt| scene.behind(attempt)).collect();
    let (ticket, _) = calls.remove(1);
    scene.leave_to_the_next(ticket, 3);
    for turn in 0..calls.len() {
        state = scene.pass_on(&state, start());
        assert!(has_lease(&mut calls[turn].1));
        assert!(calls[turn + 1..].iter_mut().all(|(_, later)| waits(later)));
    }
}

#[test]
fn whoever_gives_up_when_its_grant_is_on_its_way_has_had_its_turn() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (_, mut second) = scene.behind(2);
    assert!(scene.0.waiters.take(id(1)).is_some());
    assert!(matches!(scene.leave(ticket, 1), Left::HadTurn));
    assert!(waits(&mut second), "it is passed on once it is a lease");
}

#[test]
fn a_first_who_shows_no_sign_of_life_is_skipped_once_somebody_is_behind() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    assert!(scene.take_due(start() + CLAIM_WINDOW).is_empty());
    let (_, mut second) = scene.behind(2);
    let later = start() + CLAIM_WINDOW;
    assert!(scene.0.lines.show_life(&name(), Some(ticket), later).is_some());
    scene.take_due(later);
    assert!(waits(&mut second));
    scene.take_due(later + CLAIM_WINDOW);
    assert_eq!(asks(&mut second).id, id(1), "with what was asked already");
    assert!(scene.0.lines.show_life(&name(), Some(ticket), later).is_none());
}

#[test]
fn a_first_who_waits_in_the_stores_queue_is_not_skipped() {
    let mut scene = Scene::new(SLICE);
    let (_, _first) = scene.first(1);
    let place = Place::new(7, 1, Duration::from_secs(1));
    scene.0.waiters.joined(id(1), place, false, start()).unwrap();
    let (_, mut second) = scene.behind(2);
    scene.take_due(start() + CLAIM_WINDOW * 2);
    assert!(waits(&mut second));
}

#[test]
fn the_next_attempt_of_the_first_keeps_its_place() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (_, mut second) = scene.behind(2);
    assert!(scene.0.withdraw(&name(), Some(ticket), id(1)).is_some());
    let (mut waiter, _again) = call(3);
    waiter.ticket = Some(ticket);
    let begun = scene.0.begin(waiter, true, start());
    assert!(matches!(begun, Begun::Asks { ticket: Some(same), .. } if same == ticket));
    let state = scene.grant(3, Some(ticket), start());
    scene.pass_on(&state, start());
    assert!(has_lease(&mut second));
}

#[test]
fn an_answer_to_the_first_concerns_all_behind_it_and_no_other_line() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (other, _) = scene.behind(2);
    scene.behind(3);
    assert!(scene.0.lines.take_behind(&name(), Some(other)).is_empty(), "it is not the first");
    let behind = scene.0.lines.take_behind(&name(), Some(ticket));
    assert_eq!(behind.iter().map(|call| call.id).collect::<Vec<_>>(), [id(2), id(3)]);
}
