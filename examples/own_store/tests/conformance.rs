//! Tests that the store passes the conformance suite, and keeps its records.

use std::fs;
use std::time::Duration;

use leasehold::Client;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::time::{Clock, FakeClock, SystemClock};
use leasehold_conformance::{Subject, conformance};
use own_store::OwnStore;
use tempfile::TempDir;

fn open(directory: &TempDir, clock: impl Clock) -> Result<OwnStore, StoreError> {
    OwnStore::open(directory.path().join("locks"), clock)
}

/// The cases, each with a clock that stands still until the case moves it.
mod on_a_clock_of_the_test {
    use super::*;

    async fn make() -> Subject {
        let (clock, directory) = (FakeClock::new(), tempfile::tempdir().unwrap());
        let store = open(&directory, clock.clone()).unwrap();
        Subject::fake(store, clock).keeping(directory)
    }

    conformance!(make());
}

/// All cases on one store, in real time.
mod in_real_time {
    use super::*;

    async fn make() -> Subject {
        let directory = tempfile::tempdir().unwrap();
        Subject::real(open(&directory, SystemClock::new()).unwrap(), directory)
    }

    conformance!(together make());
}

#[tokio::test]
async fn what_is_held_outlives_the_store() {
    let (clock, directory) = (FakeClock::new(), tempfile::tempdir().unwrap());
    clock.advance(Duration::from_secs(1_000));
    let client = |store| Client::builder().store(store).clock(clock.clone()).build();
    let first = client(open(&directory, clock.clone()).unwrap()).await.unwrap();
    let guard = first.mutex("a").acquire().await.unwrap();
    let second = client(open(&directory, clock.clone()).unwrap()).await.unwrap();
    assert!(second.mutex("a").try_acquire().await.unwrap().is_none());
    drop(guard);
}

#[test]
fn a_damaged_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("locks"), "these are no locks").unwrap();
    let refused = open(&directory, FakeClock::new()).unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Corrupt);
}
