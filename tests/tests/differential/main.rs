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
const ACTIONS: usize = 20_000;

/// How many histories are played between two looks at the number of actions.
const HISTORIES: u32 = 50;

/// Compares histories of a lock that is shared with other programs, until there were enough actions
/// of ours; `compare` says how many a history has.
fn compare_actions<H: Debug>(
    kept: &'static str,
    histories: &impl Strategy<Value = H>,
    compare: impl Fn(&mut Place, &H) -> Result<usize, String>,
) {
    let (place, compared) = (RefCell::new(Place::start()), Cell::new(0));
    while compared.get() < ACTIONS {
        let outcome = runner(kept).run(histories, |history| {
            let actions = compare(&mut place.borrow_mut(), &history);
            compared.set(compared.get() + actions.map_err(TestCaseError::fail)?);
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{} actions compared", compared.get());
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
