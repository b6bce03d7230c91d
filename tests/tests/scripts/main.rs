//! The scripts of the native layout on a real server mean what the model means: random histories
//! are played to both, and after every step the reply, the messages and all keys of the name are
//! compared.
//!
//! The scripts read a clock that the test sets. Keys expire by the server's clock, so time passes
//! as keys that live for less long; times of both clocks may differ by some milliseconds.
#![cfg(test)]

mod history;
mod keys;
#[path = "../../../crates/leasehold-core/tests/gate/quick.rs"]
mod quick;
mod server;

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use self::history::{History, Step, steps};
use self::server::Server;
use leasehold_testkit::must;

/// How many steps are compared, at least; `LEASEHOLD_DIFFERENTIAL_STEPS` asks for another number.
const STEPS: usize = 20_000;

/// A step takes a few milliseconds. The times that are compared may differ by 300 ms.
const STALL: Duration = Duration::from_millis(100);

/// Plays a history to the end. One that differs is played again if a step of it took as long as no
/// step takes: a stall lets time pass on the server's clock, and not on the model's.
fn play(server: &RefCell<Server>, steps: &[Step]) -> Result<usize, String> {
    let mut server = server.borrow_mut();
    loop {
        let (mut history, mut longest) = (History::default(), Duration::ZERO);
        server.forget();
        let compared = steps.iter().enumerate().try_for_each(|(at, step)| {
            let begin = Instant::now();
            let compared = history.compare(&mut server, step);
            longest = longest.max(begin.elapsed());
            compared.map_err(|why| format!("step {at}, {step:?}: {why}"))
        });
        if compared.is_ok() || longest < STALL {
            return compared.map(|()| steps.len());
        }
    }
}

#[test]
fn the_scripts_mean_what_the_model_means() {
    let wanted = std::env::var("LEASEHOLD_DIFFERENTIAL_STEPS").map_or(STEPS, |n| must(n.parse()));
    let (server, compared) = (RefCell::new(Server::start()), Cell::new(0));
    while compared.get() < wanted {
        let mut runner =
            TestRunner::new(Config { cases: 50, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&steps(), |steps| {
            let steps = play(&server, &steps).map_err(TestCaseError::fail)?;
            compared.set(compared.get() + steps);
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{} steps compared", compared.get());
}
