//! The layout `redisson`: locks that are shared with programs in Java.
//!
//! The tests beside Redisson itself start `tests/peers/redisson`; `cargo xtask test` builds it, and
//! says so where it cannot. Each test then does without, and says that too.
#![cfg(test)]

mod beside;
mod conformance;
mod contender;
mod faults;
mod wire;

use leasehold_testkit::worker;

#[test]
#[ignore = "a job of the tests here, for a separate process"]
fn job() {
    contender::work(&worker::arguments());
}
