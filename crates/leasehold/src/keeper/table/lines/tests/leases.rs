//! Who has the lease next, and when the store has it again.

use leasehold_core::model::CLAIM_WINDOW;

use super::{SLICE, Scene, TTL, asks, call, cleanup, granted, has_lease, id, start, waits};
use crate::keeper::table::LetGo;
use crate::keeper::table::lines::Begun;

#[test]
fn what_is_let_go_of_goes_to_the_next_in_line_with_a_token_one_higher() {
    let mut scene = Scene::new(SLICE);
    let mut state = scene.held();
    let (_, mut second) = scene.behind(2);
    let (_, mut third) = scene.behind(3);
    let token = state.token();
    state = scene.pass_on(&state, start());
    assert!(has_lease(&mut second) && waits(&mut third));
    assert_eq!((state.id, state.grant_token()), (id(1), token), "the lease is the same");
    assert_eq!(state.token().get(), token.get() + 1);
    state = scene.pass_on(&state, start());
    assert!(has_lease(&mut third));
    assert_eq!(state.token().get(), token.get() + 2);
    scene.release(&state, start());
    assert!(scene.0.is_idle(), "nobody is left");
}

#[test]
fn what_was_passed_on_is_not_passed_on_by_whoever_had_it_before() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, _second) = scene.behind(2);
    let (_, mut third) = scene.behind(3);
    let next = scene.pass_on(&state, start());
    let again = scene.0.let_go(&state, None, start());
    assert!(matches!(again, LetGo::Released { was_kept: false, .. }), "{again:?}");
    assert!(waits(&mut third) && scene.0.leases.keeps(&next));
}

#[test]
fn when_the_slice_is_over_the_next_asks_for_another_lease_with_an_attempt_of_its_own() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (ticket, mut second) = scene.behind(2);
    let (_, mut third) = scene.behind(3);
    let end = start() + SLICE;
    scene.release(&state, end);
    let ask = asks(&mut second);
    assert_eq!((ask.id, ask.nonce, ask.is_known, ask.yields), (id(2), 2, false, true));
    assert!(waits(&mut third));
    let next = scene.grant(2, Some(ticket), end);
    assert!(next.token() > state.token());
    scene.pass_on(&next, end + SLICE / 2);
    assert!(has_lease(&mut third), "it is a fresh slice");
}

#[test]
fn a_lease_of_which_too_little_is_left_is_not_passed_on() {
    let least = TTL / 2;
    let [(first, _first), (second, mut receiver)] = [1, 2].map(|attempt| {
        let (mut waiter, receiver) = call(attempt);
        waiter.options.min_validity = Some(least);
        (waiter, receiver)
    });
    let mut scene = Scene::new(TTL);
    let begun = scene.0.begin(first, true, start());
    let Begun::Asks { ticket, .. } = begun else { panic!("{begun:?}") };
    let state = scene.grant(1, ticket, start());
    assert!(matches!(scene.0.begin(second, true, start()), Begun::Behind { .. }));
    scene.release(&state, start() + least);
    assert!(asks(&mut receiver).yields);
}

#[test]
fn a_lease_is_passed_on_as_often_as_a_token_has_room_for_that() {
    let mut scene = Scene::new(SLICE);
    let mut state = scene.held();
    let token = state.token();
    for pass in 1..=4_095 {
        let (_, _next) = scene.behind(1 + pass);
        state = scene.pass_on(&state, start());
        assert_eq!(state.token().get(), token.get() + pass);
    }
    assert!(state.token() < granted(2), "below what the store grants next");
    let (_, mut next) = scene.behind(5_000);
    scene.release(&state, start());
    assert_eq!(asks(&mut next).id, id(5_000));
}

#[test]
fn what_is_lost_in_the_hands_of_the_next_ends_there_and_whoever_is_behind_asks() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, _second) = scene.behind(2);
    let (_, mut third) = scene.behind(3);
    let next = scene.pass_on(&state, start());
    let (was_kept, wakeup) = scene.0.forget(&state, start());
    wakeup.deliver();
    assert!(!was_kept && scene.0.leases.keeps(&next) && waits(&mut third));
    let (was_kept, wakeup) = scene.0.forget(&next, start());
    wakeup.deliver();
    let ask = asks(&mut third);
    assert!(was_kept && !ask.yields && !ask.is_known);
    let late = scene.0.let_go(&next, None, start());
    assert!(matches!(late, LetGo::Released { was_kept: false, .. }), "{late:?}");
}

#[test]
fn a_lease_that_has_run_out_is_passed_to_nobody_and_the_next_in_line_asks() {
    let mut scene = Scene::new(TTL * 2);
    let state = scene.held();
    let (_, mut second) = scene.behind(2);
    assert!(scene.take_due(start() + TTL).is_empty());
    assert_eq!(asks(&mut second).id, id(2));
    assert!(!scene.0.leases.keeps(&state));
}

#[test]
fn a_lease_that_is_not_fetched_in_time_goes_to_the_next_in_line_while_the_slice_lasts() {
    let mut scene = Scene::new(TTL);
    let state = scene.held();
    let [(_, _second), (_, mut third)] = [scene.behind(2), scene.behind(3)];
    let LetGo::Passed(passed) = scene.0.let_go(&state, None, start()) else { panic!() };
    assert_eq!(passed.due, start() + CLAIM_WINDOW);
    let unfetched = passed.state;
    let [next] = scene.take_due(start() + CLAIM_WINDOW).try_into().unwrap();
    assert!(has_lease(&mut third) && next.token() > unfetched.token());
    let late = scene.0.leases.mark_delivered([&unfetched].into_iter(), None);
    assert_eq!(late, None, "whoever comes too late finds that there is none");
    assert!(scene.0.leases.mark_delivered([&next].into_iter(), None).is_some());
}

#[test]
fn a_lease_that_is_not_fetched_until_the_slice_is_over_is_given_back() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let [(_, _second), (_, mut third)] = [scene.behind(2), scene.behind(3)];
    let LetGo::Passed(passed) = scene.0.let_go(&state, None, start()) else { panic!() };
    assert!(scene.take_due(start() + CLAIM_WINDOW).is_empty());
    assert_eq!(asks(&mut third).id, id(3));
    assert!(!scene.0.leases.keeps(&passed.state));
}

#[test]
fn a_lease_that_is_handed_out_leaves_the_line_and_the_next_asks_the_store() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, mut second) = scene.behind(2);
    let (was_kept, wakeup) = scene.0.forget(&state, start());
    wakeup.deliver();
    let ask = asks(&mut second);
    assert_eq!((was_kept, ask.id, ask.is_known, ask.yields), (true, id(2), false, false));
}

#[test]
fn a_lease_that_is_not_what_was_granted_any_more_leaves_the_line() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, mut second) = scene.behind(2);
    scene.0.leave_line(&state, start()).deliver();
    assert_eq!(asks(&mut second).id, id(2));
    assert!(scene.0.leases.keeps(&state), "its holder has it still");
    let (_, mut third) = scene.behind(3);
    scene.release(&state, start());
    assert!(waits(&mut third), "it is behind the second");
}

#[test]
fn whoever_comes_before_the_release_is_sent_has_what_was_let_go_of() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let let_go = scene.0.let_go(&state, Some(&cleanup), start());
    assert!(matches!(let_go, LetGo::Released { was_kept: true, rings: true, .. }), "{let_go:?}");
    assert_eq!(scene.0.unfinished, 1);
    let begun = scene.0.begin(call(2).0, false, start());
    let Begun::TakenOver { state, .. } = begun else { panic!("{begun:?}") };
    assert_eq!((state.id, scene.0.unfinished), (id(1), 0));
    assert!(scene.0.take_due(start()).cleanups.is_empty(), "nothing is released");
}

#[test]
fn a_renewal_that_was_answered_while_nobody_had_the_lease_is_sent_again_for_whoever_takes_it() {
    let mut scene = Scene::new(TTL);
    let state = scene.held();
    let due = start() + TTL * 2 / 5;
    assert_eq!(scene.0.take_due(due).leases.renewals.len(), 1);
    drop(scene.0.let_go(&state, Some(&cleanup), due));
    let begun = scene.0.begin(call(2).0, true, due);
    assert!(matches!(begun, Begun::TakenOver { .. }), "{begun:?}");
    assert_eq!(scene.0.take_due(due).leases.renewals.len(), 1);
}

#[test]
fn what_was_lost_or_revoked_while_nobody_had_it_is_taken_over_by_nobody() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    drop(scene.0.let_go(&state, Some(&cleanup), start()));
    scene.0.lines.end_kept(id(7));
    scene.0.lines.end_kept(id(1));
    let begun = scene.0.begin(call(2).0, true, start());
    assert!(matches!(begun, Begun::Asks { release: Some(_), .. }), "{begun:?}");
}

#[test]
fn whoever_comes_when_the_slice_is_over_sends_the_release_with_its_own_request() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    drop(scene.0.let_go(&state, Some(&cleanup), start()));
    let begun = scene.0.begin(call(2).0, true, start() + SLICE);
    let Begun::Asks { ticket: Some(_), release: Some(_) } = begun else { panic!("{begun:?}") };
    assert!(scene.0.take_due(start() + SLICE).cleanups.is_empty(), "it is sent once");
}

#[test]
fn what_nobody_comes_for_is_released_once() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    drop(scene.0.let_go(&state, Some(&cleanup), start()));
    assert_eq!(scene.0.take_due(start()).cleanups.len(), 1);
    assert!(scene.0.take_due(start()).cleanups.is_empty());
    scene.first(2);
}
