//! D19: a slot moves to a node whose clock is ahead. A key moves with the time that it has left, so
//! the hold of a lock does not end early.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::{Client, Guard};
use leasehold_testkit::harness::free_soon;
use leasehold_testkit::{Cluster, must};

use super::{PATIENCE, url, with_least_rights};

/// A lease that a test waits for, and that is long compared with the delays of a busy machine.
const TTL: Duration = Duration::from_secs(8);

/// Moves the slot of a held name to a node whose clock is ahead, and takes the name there as soon
/// as possible. Returns the holder before and the holder now.
async fn taken_after_a_move(ahead_s: f64, options: &str) -> (Guard, Guard) {
    let cluster = must(Cluster::start_with(&with_least_rights().own_clock(), 0));
    must(cluster.node(1).set_clock(ahead_s, 1.0));
    let url = format!("{}?timeout=10s&{options}", url(&cluster));
    let (one, two) = (must(Client::connect(&url).await), must(Client::connect(&url).await));
    must(one.admin().end_quarantine().await);
    let (name, slot) = cluster.fresh_name(0);
    let lock = |client: &Client| client.mutex(&name).ttl(TTL).renewal(Renewal::Off);
    let first = must(lock(&one).acquire_within(PATIENCE).await);
    must(cluster.move_slot(slot, 1));
    (first, free_soon(&lock(&two)).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d19_a_slot_that_moves_to_a_clock_that_is_ahead_has_one_holder() {
    for ahead_s in [0.4, 5.0] {
        let (first, second) = taken_after_a_move(ahead_s, "").await;
        assert!(!first.is_held(), "two hold");
        assert!(second.token() > first.token());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d19_with_a_quarantine_a_slot_that_moves_to_a_clock_that_is_ahead_has_one_holder() {
    let (first, second) = taken_after_a_move(5.0, "quarantine=8s").await;
    assert!(!first.is_held(), "two hold");
    assert!(second.token() > first.token());
}
