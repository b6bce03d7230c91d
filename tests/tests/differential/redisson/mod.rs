//! The scripts of the layout `redisson` mean what Redisson's own verbs mean: random histories of
//! both languages are played to models and to a real server, and after every action of ours the
//! reply, the messages and all keys are compared. Besides, nobody believes to hold beside somebody
//! whom that excludes, and no action of ours cuts a hold of Java's short.

mod history;
mod java;
mod ours;
mod place;
mod record;
mod strategies;

use std::cell::{Cell, RefCell};

use proptest::test_runner::{TestCaseError, TestError};

use self::place::Place;

/// Where histories that failed are kept, to be played first ever after.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/redisson/kept.txt");

/// How many actions of ours are compared, at least.
const STEPS: u64 = 20_000;

#[test]
fn an_action_of_ours_leaves_of_a_lock_of_redissons_what_redisson_would_have_left() {
    let place = RefCell::new(Place::start());
    let compared = Cell::new(0);
    while compared.get() < STEPS {
        let outcome = super::runner(KEPT).run(&strategies::history(), |history| {
            let played = history::play(&history).map_err(TestCaseError::fail)?;
            compared.set(compared.get() + played.len() as u64);
            place.borrow_mut().compare(&history, &played).map_err(TestCaseError::fail)
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, history)) => panic!("{why}\nthe history: {history:#?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
    }
    println!("{} actions compared", compared.get());
}
