//! The Redis store where sentinels say who is the primary.
#![cfg(test)]

mod clocks;
mod conformance;
mod failover;
mod loss;
mod passwords;
mod sentinels;

use std::time::Duration;

use leasehold_testkit::harness::{
    PATIENCE, connect, loss, queued, request, retry, soon, until, until_so,
};

/// A lease that outlives every failover in these tests.
const LONG: Duration = Duration::from_secs(300);

/// A lease that ends while a test watches.
const SHORT: Duration = Duration::from_secs(2);

#[test]
#[ignore = "a job of the tests, for a separate process"]
fn job() {
    passwords::job();
}
