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

fn overlap(h: &mut History) {
    hold(&mut h.calls[0]).left = ms(101);
}

fn share(h: &mut History, mode: Mode) {
    overlap(h);
    h.calls.iter_mut().for_each(|call| call.mode = mode);
}

fn give_up(h: &mut History, id: HolderId, at: u64) {
    let outcome = Outcome::GaveUp { at: ms(at) };
    h.calls.push(Call { id, outcome, ..h.calls[0].clone() });
}

/// The first two calls are of one attempt, and the lease was passed on to the second of them.
fn pass_on(h: &mut History) {
    let next = FencingToken::from_number(token(1).get() + 1).unwrap();
    h.calls.truncate(2);
    h.calls[1].id = id(1);
    hold(&mut h.calls[1]).token = next;
    h.accepted = vec![token(1), next];
}

fn told(kind: StoreErrorKind) -> Error {
    Error::Store(StoreError::new(kind, "no"))
}

type Case = (&'static str, fn(&mut History), Option<Violation>);

/// What is done to a sound history, and the violation that is then found.
const CASES: [Case; 22] = [
    ("nothing", |_| (), None),
    ("a token twice", |h| hold(&mut h.calls[1]).token = token(1), Some(Violation::TokenTwice)),
    (
        "a token lower than one granted before it was asked for",
        |h| {
            hold(&mut h.calls[0]).token = token(9);
            h.calls[2].asked = ms(150);
        },
        Some(Violation::TokenOrder),
    ),
    ("a lower token accepted", |h| h.accepted.push(token(1)), Some(Violation::WriteOrder)),
    ("two holders at once", overlap, Some(Violation::Overlap)),
    (
        "the first of two had been told",
        |h| {
            overlap(h);
            let hold = hold(&mut h.calls[0]);
            (hold.valid_until, hold.was_told) = (ms(100), true);
        },
        None,
    ),
    ("two readers at once", |h| share(h, Mode::Shared), None),
    (
        "a writer before a reader",
        |h| {
            share(h, Mode::Shared);
            h.calls[0].mode = Mode::Exclusive;
        },
        Some(Violation::Excess),
    ),
    (
        "a reader before a writer",
        |h| {
            share(h, Mode::Shared);
            h.calls[1].mode = Mode::Exclusive;
        },
        Some(Violation::Excess),
    ),
    (
        "four permits of three",
        |h| share(h, Mode::Permits { count: 2, capacity: 3 }),
        Some(Violation::Excess),
    ),
    ("four permits of four", |h| share(h, Mode::Permits { count: 2, capacity: 4 }), None),
    ("something is left", |h| h.remains.push("lh:a".into()), Some(Violation::Remains)),
    ("an error that may pass", |h| h.errors.push(told(StoreErrorKind::Timeout)), None),
    (
        "an error that no passing fault explains",
        |h| h.errors.push(told(StoreErrorKind::Corrupt)),
        Some(Violation::WrongError),
    ),
    (
        "work after its validity",
        |h| hold(&mut h.calls[0]).valid_until = ms(99),
        Some(Violation::UntoldLoss),
    ),
    (
        "work after its validity that was told",
        |h| {
            let hold = hold(&mut h.calls[0]);
            (hold.valid_until, hold.was_told) = (ms(99), true);
        },
        None,
    ),
    ("given up, and held", |h| give_up(h, id(1), 50), Some(Violation::GivenUpYetHeld)),
    ("idle for long", |h| hold(&mut h.calls[2]).entered = ms(251), Some(Violation::LostWakeUp)),
    (
        "idle for long, and nobody waits",
        |h| {
            hold(&mut h.calls[2]).entered = ms(251);
            h.calls[2].asked = ms(240);
        },
        None,
    ),
    ("idle until one gives up", |h| give_up(h, id(9), 400), Some(Violation::LostWakeUp)),
    ("an attempt with two tokens", |h| h.calls[2].id = id(1), Some(Violation::AttemptTwice)),
    ("an attempt that was passed on", pass_on, None),
];

#[test]
fn each_kind_of_violation_is_found_and_nothing_in_a_sound_history() {
    for (what, change, expected) in CASES {
        let mut history = sound();
        change(&mut history);
        let found = history.violations(ms(50));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), Vec::from_iter(expected), "{what}");
    }
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
