//! The wall clock of the server, by which leases end.

use leasehold::fence::postgres::OVERTAKEN;
use leasehold::{Client, Guard};
use leasehold_testkit::{Postgres, must};

use crate::faults::{NAME, assert_still_held, fence, held, is_taken};
use crate::installed;

/// Longer than any lease here.
const HOUR_S: f64 = 3600.0;

/// A server, a client that holds a lease, and another one.
async fn scene() -> Option<(Postgres, Guard, Client)> {
    let server = installed("PostgreSQL", must(Postgres::start_with_clock()))?;
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    Some((server, held(&client).await, other))
}

#[tokio::test]
async fn p12_a_clock_set_forward_lets_another_in_and_the_fence_tells_them_apart() {
    let Some((server, guard, other)) = scene().await else { return };
    server.set_clock(HOUR_S).unwrap();
    let next = other.mutex(NAME).try_acquire().await.unwrap().expect("the lease is over");
    assert!(next.token() > guard.token());
    assert_eq!(fence(&server, &guard).await, Err(OVERTAKEN.to_owned()));
    assert_eq!(fence(&server, &next).await, Ok(()));
}

#[tokio::test]
async fn p12_a_clock_set_back_lets_nobody_in_and_a_release_hands_over_at_once() {
    let Some((server, guard, other)) = scene().await else { return };
    server.set_clock(-HOUR_S).unwrap();
    assert!(is_taken(&other).await);
    assert_still_held(&guard).await;
    let before = guard.token();
    guard.release().await.unwrap();
    let next = other.mutex(NAME).try_acquire().await.unwrap().expect("it was released");
    assert!(next.token() > before, "tokens do not go back with the clock");
}
