//! The places of callers, which of them asks, and who gets a place that is given up.

use std::time::Duration;

use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{Mode, Place, Renewal};
use tokio::sync::oneshot;

use super::{
    Ask, Attempt, Left, SLICE, Scene, Step, TTL, answered, asks, call, granted, has_lease, id,
    name, start, waits,
};

#[test]
fn of_those_who_ask_for_the_same_only_the_first_asks_the_store() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let step = scene.join(&mut call(2), true, start());
    let Step::Wait { behind: Some(behind), .. } = step else { panic!("{step:?}") };
    assert_eq!((behind.ahead, behind.own), (1, None));
    assert!(!scene.table().queues.asking.contains_key(&id(2)), "nobody polls for it");
    scene.grant(1, Some(ticket), start());
    let step = scene.join(&mut call(3), true, start());
    let Step::Wait { behind: Some(behind), .. } = step else { panic!("{step:?}") };
    assert_eq!((behind.ahead, behind.own), (1, Some(granted(1))));
}

#[test]
fn a_try_is_busy_while_somebody_of_its_client_holds_or_asks() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    assert!(matches!(scene.join(&mut call(2), false, start()), Step::Busy));
    let state = scene.grant(1, Some(ticket), start());
    assert!(matches!(scene.join(&mut call(3), false, start()), Step::Busy));
    scene.release(&state, start());
    let mut last = call(4);
    let step = scene.join(&mut last, false, start());
    assert!(matches!(step, Step::Ask(Ask { release: None, .. })), "{step:?}");
    assert_eq!(last.ticket, None);
}

#[test]
fn a_caller_that_limits_its_hold_or_asks_for_something_else_is_a_stranger_to_the_line() {
    type Change = fn(&mut Attempt);
    let strangers: [Change; 6] = [
        |call| call.options.min_hold = Some(SLICE),
        |call| call.options.max_hold = Some(TTL),
        |call| call.options.renewal = Renewal::Off,
        |call| call.options.ttl = TTL * 2,
        |call| call.request.mode = Mode::Shared,
        |call| call.joins = false,
    ];
    for (number, change) in strangers.into_iter().enumerate() {
        let mut scene = Scene::new(SLICE);
        let state = scene.held();
        let mut stranger = call(2);
        change(&mut stranger);
        let step = scene.join(&mut stranger, true, start());
        let Step::Ask(Ask { mut turn, .. }) = step else { panic!("{number}: {step:?}") };
        assert_eq!(stranger.ticket, None, "{number}");
        let (_, mut next) = scene.behind(3);
        scene.pass_on(&state, start());
        assert!(waits(&mut turn) && has_lease(&mut next), "{number}");
    }
}

#[test]
fn without_a_slice_there_are_no_lines() {
    let scene = Scene::new(Duration::ZERO);
    for attempt in 1..3 {
        let mut call = call(attempt);
        let step = scene.join(&mut call, true, start());
        assert!(matches!(step, Step::Ask(_)) && call.ticket.is_none(), "{step:?}");
    }
}

#[test]
fn the_next_in_line_takes_over_the_attempt_of_the_first_who_gives_up() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (second_ticket, mut second) = scene.behind(2);
    scene.leave_to_the_next(ticket, 1);
    let mut ask = asks(&mut second);
    assert_eq!((ask.request.id, ask.is_known, ask.yields), (id(1), true, false));
    let (_, mut third) = scene.behind(3);
    scene.leave_to_the_next(second_ticket, 1);
    assert!(ask.turn.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
    assert_eq!(asks(&mut third).request.id, id(1));
}

#[test]
fn a_caller_that_takes_over_a_place_in_the_stores_queue_has_only_to_wait() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let place = Place::new(7, 1, Duration::from_secs(1));
    scene.table().queues.queued(&answered(1, Some(ticket)), place, start()).unwrap();
    let (_, mut second) = scene.behind(2);
    scene.leave_to_the_next(ticket, 1);
    assert!(waits(&mut second));
    let waiter = scene.table().queues.take(id(1)).unwrap();
    assert!(waiter.turn.send(Ok(Step::Join)).is_ok());
    assert!(matches!(second.try_recv(), Ok(Ok(Step::Join))));
}

#[test]
fn only_an_empty_line_cancels_its_attempt() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (second_ticket, mut second) = scene.behind(2);
    scene.leave_to_the_next(ticket, 1);
    drop(asks(&mut second));
    match scene.leave(second_ticket, 1) {
        Left::Own { request, .. } => assert_eq!(request.id, id(1), "that of the first caller"),
        other => panic!("{other:?}"),
    }
    assert!(scene.table().is_idle());
    scene.first(3);
}

#[test]
fn a_caller_that_gives_up_in_the_middle_leaves_the_others_in_their_order() {
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
fn a_caller_that_gives_up_when_its_grant_is_on_its_way_has_had_its_turn() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (_, mut second) = scene.behind(2);
    assert!(scene.table().queues.take(id(1)).is_some());
    assert!(matches!(scene.leave(ticket, 1), Left::HadTurn));
    assert!(waits(&mut second), "it is passed on once it is a lease");
}

#[test]
fn a_first_who_shows_no_sign_of_life_is_skipped_once_somebody_is_behind() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let first = Attempt { ticket: Some(ticket), ..call(1) };
    assert!(scene.take_due(start() + CLAIM_WINDOW).is_empty());
    let (_, mut second) = scene.behind(2);
    let later = start() + CLAIM_WINDOW;
    scene.1.advance(CLAIM_WINDOW);
    assert!(scene.0.shows_life(&first).is_some());
    scene.take_due(later);
    assert!(waits(&mut second));
    scene.take_due(later + CLAIM_WINDOW);
    assert_eq!(asks(&mut second).request.id, id(1), "with what was asked already");
    assert!(scene.0.shows_life(&first).is_none());
}

#[test]
fn a_first_who_waits_in_the_stores_queue_is_not_skipped() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let place = Place::new(7, 1, Duration::from_secs(1));
    scene.table().queues.queued(&answered(1, Some(ticket)), place, start()).unwrap();
    let (_, mut second) = scene.behind(2);
    scene.take_due(start() + CLAIM_WINDOW * 2);
    assert!(waits(&mut second));
}

#[test]
fn the_answer_to_a_first_who_was_skipped_is_not_that_to_the_next_who_asked_in_its_place() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (next, mut second) = scene.behind(2);
    scene.take_due(start() + CLAIM_WINDOW);
    assert_eq!(asks(&mut second).request.id, id(1));
    let place = Place::new(7, 1, Duration::from_secs(1));
    for (ticket, is_unanswered) in [(ticket, true), (next, false)] {
        scene.table().queues.queued(&answered(1, Some(ticket)), place, start()).unwrap();
        assert_eq!(scene.table().queues.asking[&id(1)].attempt.unanswered, is_unanswered);
    }
}

#[test]
fn the_next_attempt_of_the_first_keeps_its_place() {
    let mut scene = Scene::new(SLICE);
    let (ticket, _first) = scene.first(1);
    let (_, mut second) = scene.behind(2);
    assert!(scene.0.withdraw(&Attempt { ticket: Some(ticket), ..call(1) }));
    let mut again = Attempt { ticket: Some(ticket), ..call(3) };
    let step = scene.join(&mut again, true, start());
    assert!(matches!(step, Step::Ask(_)) && again.ticket == Some(ticket), "{step:?}");
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
    assert!(
        scene.table().queues.take_behind(&name(), Some(other)).is_empty(),
        "it is not the first"
    );
    let behind = scene.table().queues.take_behind(&name(), Some(ticket));
    let ids: Vec<_> = behind.iter().map(|call| call.attempt.request.id).collect();
    assert_eq!(ids, [id(2), id(3)]);
}
