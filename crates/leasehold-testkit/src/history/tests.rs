//! Tests of the check: each kind of violation is found, and nothing in a sound history.

use leasehold::admin::ClientId;
use leasehold::error::{StoreError, StoreErrorKind};

use super::*;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn token(number: u64) -> FencingToken {
    FencingToken::from_number(number << 12).unwrap()
}

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

/// Client `client` asks at 0, holds from `entered` to `left` with the token of its number.
fn held(client: u128, entered: u64, left: u64) -> Call {
    let hold = Hold {
        token: token(client as u64),
        entered: ms(entered),
        left: ms(left),
        valid_until: ms(left + 1000),
        was_told: false,
    };
    let outcome = Outcome::Held(hold);
    Call { id: id(client), mode: Mode::Exclusive, asked: ms(0), outcome }
}

fn hold(call: &mut Call) -> &mut Hold {
    match &mut call.outcome {
        Outcome::Held(hold) => hold,
        other => panic!("{other:?}"),
    }
}

fn sound() -> History {
    History {
        calls: vec![held(1, 0, 100), held(2, 100, 200), held(3, 205, 300)],
        accepted: vec![token(1), token(2), token(2), token(3)],
        ..History::default()
    }
}

/// The violations of a sound history that was changed.
fn found(change: impl FnOnce(&mut History)) -> Vec<Violation> {
    let mut history = sound();
    change(&mut history);
    history.violations(ms(50)).into_iter().collect()
}

#[test]
fn nothing_is_found_in_a_sound_history() {
    assert_eq!(found(|_| ()), []);
}

#[test]
fn a_token_that_is_given_out_twice_is_found() {
    assert_eq!(found(|h| hold(&mut h.calls[1]).token = token(1)), [Violation::TokenTwice]);
}

#[test]
fn a_token_lower_than_one_granted_before_it_was_asked_for_is_found() {
    let change = |h: &mut History| {
        hold(&mut h.calls[0]).token = token(9);
        h.calls[2].asked = ms(150);
    };
    assert_eq!(found(change), [Violation::TokenOrder]);
}

#[test]
fn of_a_forgetful_store_grants_must_be_in_order_and_not_what_is_passed_on() {
    let passed_on = token(3).passed_on(1).unwrap();
    for (low, found) in [(passed_on, vec![]), (token(3), vec![Violation::TokenOrder])] {
        let mut history = sound();
        hold(&mut history.calls[0]).token = token(9);
        hold(&mut history.calls[2]).token = low;
        history.calls[2].asked = ms(150);
        assert_eq!(history.violations(ms(50)), [Violation::TokenOrder].into());
        assert!(history.violations_if_forgotten(ms(50)).into_iter().eq(found));
    }
}

#[test]
fn a_lower_token_that_is_accepted_after_a_higher_one_is_found() {
    assert_eq!(found(|h| h.accepted.push(token(1))), [Violation::WriteOrder]);
}

fn overlap(h: &mut History) {
    hold(&mut h.calls[0]).left = ms(101);
}

#[test]
fn two_holders_at_once_are_found_as_far_as_both_could_rely_on_it() {
    assert_eq!(found(overlap), [Violation::Overlap]);
    let told = |h: &mut History| {
        overlap(h);
        let hold = hold(&mut h.calls[0]);
        (hold.valid_until, hold.was_told) = (ms(100), true);
    };
    assert_eq!(found(told), [], "the first had been told");
}

#[test]
fn readers_hold_at_once_and_a_writer_among_them_is_found() {
    let readers = |h: &mut History| {
        overlap(h);
        h.calls.iter_mut().for_each(|call| call.mode = Mode::Shared);
    };
    assert_eq!(found(readers), []);
    for writer in 0..2 {
        let writer = |h: &mut History| {
            readers(h);
            h.calls[writer].mode = Mode::Exclusive;
        };
        assert_eq!(found(writer), [Violation::Excess]);
    }
}

#[test]
fn more_permits_than_there_are_are_found() {
    let permits = |capacity| {
        move |h: &mut History| {
            overlap(h);
            let two = Mode::Permits { count: 2, capacity };
            h.calls.iter_mut().for_each(|call| call.mode = two);
        }
    };
    assert_eq!(found(permits(3)), [Violation::Excess]);
    assert_eq!(found(permits(4)), []);
}

#[test]
fn what_is_left_behind_is_found() {
    assert_eq!(found(|h| h.remains.push("lh:a".into())), [Violation::Remains]);
}

#[test]
fn an_error_that_no_passing_fault_explains_is_found() {
    let told =
        |kind| move |h: &mut History| h.errors.push(Error::Store(StoreError::new(kind, "no")));
    assert_eq!(found(told(StoreErrorKind::Timeout)), []);
    assert_eq!(found(told(StoreErrorKind::Corrupt)), [Violation::WrongError]);
}

#[test]
fn work_after_its_validity_is_found_unless_it_was_told() {
    let late = |h: &mut History| hold(&mut h.calls[0]).valid_until = ms(99);
    assert_eq!(found(late), [Violation::UntoldLoss]);
    let told = |h: &mut History| {
        late(h);
        hold(&mut h.calls[0]).was_told = true;
    };
    assert_eq!(found(told), []);
}

#[test]
fn an_attempt_that_was_given_up_and_holds_is_found() {
    let change = |h: &mut History| {
        let outcome = Outcome::GaveUp { at: ms(50) };
        h.calls.push(Call { outcome, ..h.calls[0].clone() });
    };
    assert_eq!(found(change), [Violation::GivenUpYetHeld]);
}

#[test]
fn a_lock_that_stays_free_though_somebody_waits_is_found() {
    let change = |h: &mut History| {
        hold(&mut h.calls[2]).entered = ms(251);
    };
    assert_eq!(found(change), [Violation::LostWakeUp]);
    let nobody_waits = |h: &mut History| {
        change(h);
        h.calls[2].asked = ms(240);
    };
    assert_eq!(found(nobody_waits), []);
    let gave_up = |h: &mut History| {
        let outcome = Outcome::GaveUp { at: ms(400) };
        h.calls.push(Call { id: id(9), outcome, ..h.calls[0].clone() });
    };
    assert_eq!(found(gave_up), [Violation::LostWakeUp], "if it waited until then");
}

#[test]
fn an_attempt_with_tokens_of_two_grants_is_found() {
    let change = |h: &mut History| {
        h.calls[2].id = id(1);
    };
    assert_eq!(found(change), [Violation::AttemptTwice]);
    let passed_on = |h: &mut History| {
        let Outcome::Held(first) = &h.calls[0].outcome else { panic!("it holds") };
        let next = FencingToken::from_number(first.token.get() + 1).unwrap();
        let (accepted, id) = (first.token, h.calls[0].id);
        h.calls.truncate(2);
        h.calls[1].id = id;
        if let Outcome::Held(second) = &mut h.calls[1].outcome {
            h.accepted = vec![accepted, next];
            second.token = next;
        }
    };
    assert_eq!(found(passed_on), [], "inside of a client");
}
