//! Acknowledged replicas and the restart guard: what each setting prevents, and what it does not.
#![cfg(test)]

mod claim;
mod conformance;
mod contention;
mod failover;
mod one_question;
mod places;
mod policy;
mod quarantine;
mod questions;
mod writes;

use std::time::{Duration, Instant};

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, Guard};
use leasehold_testkit::harness::{LOOK_EVERY, PATIENCE, connect, request, soon, until};

/// Long enough that no lease ends by itself during a test.
const TTL: Duration = Duration::from_secs(30);

/// A time limit for busy machines. A WAIT has half of it, so time is left for its answer; a try
/// asks for longer than that.
const SURE: &str = "timeout=2s";

/// The result of a try. If a busy machine delays the answer, tries again, once the store has
/// forgotten the try before.
async fn try_acquire(client: &Client, name: &str) -> Result<Option<Guard>, Error> {
    let (since, mut was_slow) = (Instant::now(), false);
    loop {
        let outcome = client.mutex(name).ttl(TTL).try_acquire().await;
        let is_slow = match &outcome {
            Err(Error::Indeterminate { .. }) => true,
            Err(error) => kind(error) == Some(StoreErrorKind::Timeout),
            Ok(found) => was_slow && found.is_none(),
        };
        if !is_slow || since.elapsed() > PATIENCE {
            return outcome;
        }
        was_slow = true;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn kind(error: &Error) -> Option<StoreErrorKind> {
    match error {
        Error::Store(error) => Some(error.kind()),
        _ => None,
    }
}

fn is_not_replicated(error: &Error) -> bool {
    kind(error) == Some(StoreErrorKind::NotReplicated)
}
