//! Which caller gets the lease next, and when the lease goes back to the store.

use leasehold_core::model::CLAIM_WINDOW;

use super::{
    Ask, SLICE, Scene, Step, TTL, asks, call, cleanup, granted, has_lease, id, start, waits,
};

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
    assert!(scene.table().is_idle(), "nobody is left");
}

#[test]
fn what_was_passed_on_is_neither_passed_on_nor_released_by_its_former_holder() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, _second) = scene.behind(2);
    let (_, mut third) = scene.behind(3);
    let next = scene.pass_on(&state, start());
    let again = scene.let_go(&state, Some(&cleanup), start());
    assert!(!again.was_kept && !again.rings && scene.table().cleanups.is_empty());
    assert!(waits(&mut third) && scene.table().leases.keeps(&next));
}

#[test]
fn when_the_slice_is_over_the_next_asks_for_another_lease_with_its_own_attempt() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (ticket, mut second) = scene.behind(2);
    let (_, mut third) = scene.behind(3);
    let end = start() + SLICE;
    scene.release(&state, end);
    let ask = asks(&mut second);
    assert_eq!((ask.request.id, ask.is_known, ask.yields), (id(2), false, true));
    assert!(waits(&mut third));
    let next = scene.grant(2, Some(ticket), end);
    assert!(next.token() > state.token());
    scene.pass_on(&next, end + SLICE / 2);
    assert!(has_lease(&mut third), "it is a fresh slice");
}

#[test]
fn a_lease_that_has_ended_is_not_passed_on() {
    let [mut first, mut second] = [1, 2].map(call);
    let mut scene = Scene::new(2 * TTL);
    let step = scene.join(&mut first, true, start());
    assert!(matches!(step, Step::Ask(_)), "{step:?}");
    let state = scene.grant(1, first.ticket, start());
    let step = scene.join(&mut second, true, start());
    let Step::Wait { mut turn, .. } = step else { panic!("{step:?}") };
    scene.release(&state, start() + TTL);
    assert!(asks(&mut turn).yields);
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
    assert_eq!(asks(&mut next).request.id, id(5_000));
}

#[test]
fn what_is_lost_in_the_hands_of_the_next_ends_there_and_the_caller_behind_asks() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, _second) = scene.behind(2);
    let (_, mut third) = scene.behind(3);
    let next = scene.pass_on(&state, start());
    assert!(!scene.forget(&state) && scene.table().leases.keeps(&next) && waits(&mut third));
    assert!(scene.forget(&next));
    let ask = asks(&mut third);
    assert!(!ask.yields && !ask.is_known);
    let late = scene.let_go(&next, None, start());
    assert!(!late.is_passed && !late.was_kept);
}

#[test]
fn a_lease_that_has_run_out_is_passed_to_nobody_and_the_next_in_line_asks() {
    let mut scene = Scene::new(TTL * 2);
    let state = scene.held();
    let (_, mut second) = scene.behind(2);
    assert!(scene.take_due(start() + TTL).is_empty());
    assert_eq!(asks(&mut second).request.id, id(2));
    assert!(!scene.table().leases.keeps(&state));
}

#[test]
fn a_lease_that_is_not_fetched_in_time_goes_to_the_next_in_line_while_the_slice_lasts() {
    let mut scene = Scene::new(TTL);
    let state = scene.held();
    let [(_, _second), (_, mut third)] = [scene.behind(2), scene.behind(3)];
    assert!(scene.let_go(&state, None, start()).is_passed);
    assert_eq!(scene.table().leases.next_due(), Some(start() + CLAIM_WINDOW));
    let unfetched = scene.kept(&state);
    let [next] = scene.take_due(start() + CLAIM_WINDOW).try_into().unwrap();
    assert!(has_lease(&mut third) && next.token() > unfetched.token());
    let late = scene.table().leases.mark_delivered([&unfetched].into_iter(), None);
    assert_eq!(late, None, "a caller that comes too late finds no lease");
    assert!(scene.table().leases.mark_delivered([&next].into_iter(), None).is_some());
}

#[test]
fn a_lease_that_is_not_fetched_until_the_slice_is_over_is_given_back() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let [(_, _second), (_, mut third)] = [scene.behind(2), scene.behind(3)];
    assert!(scene.let_go(&state, None, start()).is_passed);
    let passed = scene.kept(&state);
    assert!(scene.take_due(start() + CLAIM_WINDOW).is_empty());
    assert_eq!(asks(&mut third).request.id, id(3));
    assert!(!scene.table().leases.keeps(&passed));
}

#[test]
fn a_lease_that_is_handed_out_leaves_the_line_and_the_next_asks_the_store() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, mut second) = scene.behind(2);
    assert!(scene.forget(&state));
    let ask = asks(&mut second);
    assert_eq!((ask.request.id, ask.is_known, ask.yields), (id(2), false, false));
}

#[test]
fn a_lease_that_is_not_what_was_granted_any_more_leaves_the_line() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let (_, mut second) = scene.behind(2);
    let wakeup = scene.table().queues.lease_ended(&state, start(), false);
    wakeup.deliver();
    assert_eq!(asks(&mut second).request.id, id(2));
    assert!(scene.table().leases.keeps(&state), "its holder has it still");
    let (_, mut third) = scene.behind(3);
    scene.release(&state, start());
    assert!(waits(&mut third), "it is behind the second");
}

#[test]
fn a_caller_that_comes_before_the_release_is_sent_has_what_was_let_go_of() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    let let_go = scene.let_go(&state, Some(&cleanup), start());
    assert!(!let_go.is_passed && let_go.was_kept && let_go.rings);
    assert_eq!(scene.table().unfinished, 1);
    let step = scene.join(&mut call(2), false, start());
    let Step::Held(held) = step else { panic!("{step:?}") };
    assert_eq!((held.state.id, scene.table().unfinished), (id(1), 0));
    assert!(scene.due(start()).cleanups.is_empty(), "nothing is released");
}

#[test]
fn a_renewal_that_was_answered_while_nobody_had_the_lease_is_sent_again_for_its_next_holder() {
    let mut scene = Scene::new(TTL);
    let state = scene.held();
    let due = start() + TTL * 2 / 5;
    assert_eq!(scene.due(due).leases.renewals.len(), 1);
    drop(scene.let_go(&state, Some(&cleanup), due));
    let step = scene.join(&mut call(2), true, due);
    assert!(matches!(step, Step::Held(_)), "{step:?}");
    assert_eq!(scene.due(due).leases.renewals.len(), 1);
}

#[test]
fn what_was_lost_or_revoked_while_nobody_had_it_is_taken_over_by_nobody() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    drop(scene.let_go(&state, Some(&cleanup), start()));
    scene.table().queues.end_kept(id(7));
    scene.table().queues.end_kept(id(1));
    let step = scene.join(&mut call(2), true, start());
    assert!(matches!(step, Step::Ask(Ask { release: Some(_), .. })), "{step:?}");
}

#[test]
fn a_caller_that_comes_when_the_slice_is_over_sends_the_release_with_its_own_request() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    drop(scene.let_go(&state, Some(&cleanup), start()));
    let mut second = call(2);
    let step = scene.join(&mut second, true, start() + SLICE);
    assert!(matches!(step, Step::Ask(Ask { release: Some(_), .. })), "{step:?}");
    assert!(second.ticket.is_some());
    assert!(scene.due(start() + SLICE).cleanups.is_empty(), "it is sent once");
}

#[test]
fn what_nobody_comes_for_is_released_once() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    drop(scene.let_go(&state, Some(&cleanup), start()));
    assert_eq!(scene.due(start()).cleanups.len(), 1);
    assert!(scene.due(start()).cleanups.is_empty());
    scene.first(2);
}
