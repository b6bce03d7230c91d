//! The scripts on a real server mean what the model means: random histories are played to both,
//! and after every step the reply, the messages and the whole record are compared. The layout
//! `redisson` is compared with what Redisson means, and the layout `plain` with what the Redis
//! documentation does.

#[cfg(test)]
mod attempts;
#[cfg(test)]
mod bundles;
#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod dump;
#[cfg(test)]
mod history;
#[cfg(test)]
mod place;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod redisson;
#[cfg(test)]
mod server;
#[cfg(test)]
mod size;
#[cfg(test)]
mod strategies;

use std::cell::{Cell, RefCell};
use std::fmt::Debug;

use leasehold::store::redis_wire::{CLOCK, Script};
use leasehold_testkit::{RedisServer, must};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};

use self::place::Place;
use self::server::{Server, TEST_CLOCK};

/// How many steps are compared, at least; `LEASEHOLD_DIFFERENTIAL_STEPS` asks for another number.
const STEPS: u64 = 50_000;

/// How many actions on locks that are shared with other programs are compared, at least.
const ACTIONS: u64 = 20_000;

/// How many histories are played between two looks at the number of steps.
const HISTORIES: u32 = 50;

/// The directory of histories that failed. Later runs play them first.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/kept.txt");

#[test]
fn the_scripts_mean_what_the_model_means() {
    compare(steps_wanted(STEPS));
}

/// How many steps are compared, unless the environment asks for another number.
fn steps_wanted(usual: u64) -> u64 {
    let wanted = std::env::var("LEASEHOLD_DIFFERENTIAL_STEPS");
    wanted.map_or(usual, |number| must(number.parse()))
}

/// Compares a number of steps.
fn compare(wanted: u64) {
    let server = RefCell::new(Server::start(RedisServer::options()));
    play(KEPT, wanted, &strategies::steps(), |steps| {
        let played = history::play(steps);
        server.borrow_mut().compare(&played)?;
        Ok(played.len())
    });
}

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
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, history)) => panic!("{why}\nthe history: {history:#?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
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

#[test]
fn what_is_shipped_differs_from_what_is_compared_in_nothing_but_the_clock() {
    for script in Script::ALL {
        let compared = script.assemble(TEST_CLOCK);
        assert_eq!(compared.matches(TEST_CLOCK).count(), 1, "{script:?}");
        assert_eq!(compared.replace(TEST_CLOCK, CLOCK), script.source(), "{script:?}");
    }
}
