//! The scripts of the layout `redisson` mean what Redisson means, and those of the layout `plain`
//! what the Redis documentation does. Random histories are played to models and to a real server.
//! After every action of ours, the reply, the messages and all keys are compared.
#![cfg(test)]

mod attempts;
mod place;
mod plain;
mod redisson;

use std::cell::{Cell, RefCell};
use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

use self::place::Place;

/// How many actions on locks that are shared with other programs are compared, at least.
const ACTIONS: u64 = 20_000;

/// How many histories are played between two looks at the number of steps.
const HISTORIES: u32 = 50;

/// Compares histories of a lock that is shared with other programs; `compare` says how many actions
/// of ours there were.
fn compare_actions<H: Debug>(
    kept: &'static str,
    histories: &impl Strategy<Value = H>,
    compare: impl Fn(&mut Place, &H) -> Result<usize, String>,
) {
    let place = RefCell::new(Place::start());
    play(kept, ACTIONS, histories, |history| compare(&mut place.borrow_mut(), history));
}

/// Plays histories until this many steps were compared.
fn play<H: Debug>(
    kept: &'static str,
    wanted: u64,
    histories: &impl Strategy<Value = H>,
    compare: impl Fn(&H) -> Result<usize, String>,
) {
    let compared = Cell::new(0);
    while compared.get() < wanted {
        let outcome = runner(kept).run(histories, |history| {
            let steps = compare(&history).map_err(TestCaseError::fail)?;
            compared.set(compared.get() + steps as u64);
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{} steps compared", compared.get());
}

/// A runner stops for good after its number of histories, so each run needs a new one. It keeps
/// failed histories, unless the environment says that nothing is to be kept.
fn runner(kept: &'static str) -> TestRunner {
    let mut config = Config { cases: HISTORIES, source_file: Some(file!()), ..Config::default() };
    if config.failure_persistence.is_some() {
        config.failure_persistence = Some(Box::new(FileFailurePersistence::Direct(kept)));
    }
    TestRunner::new(config)
}
