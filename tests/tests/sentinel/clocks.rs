//! D19: a server takes over whose clock is ahead. Deadlines are those of the clock of the server
//! before it, so leases end early by the difference.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::{Client, Error, Guard};
use leasehold_testkit::harness::free_soon;
use leasehold_testkit::{RedisServer, SentinelFleet, options_of};

use crate::{PATIENCE, connect, retry};

/// A lease that a test waits for, and that is long compared with the delays of a busy machine.
const TTL: Duration = Duration::from_secs(8);

/// A primary and a replica whose clock is ahead.
fn apart(ahead_s: f64) -> SentinelFleet {
    let servers = RedisServer::options().own_clock();
    let fleet = SentinelFleet::start_with(servers, &[100], RedisServer::options()).unwrap();
    fleet.servers()[1].set_clock(ahead_s, 1.0).unwrap();
    fleet
}

async fn client(fleet: &SentinelFleet, options: &str) -> Client {
    connect(format!("{}?{options}", fleet.url())).await
}

/// Hands over to the other server while the lock is held, without renewals, and takes the lock
/// there as soon as possible. Returns the earlier holder and the present one.
async fn taken_after_a_hand_over(
    fleet: &SentinelFleet,
    options: &str,
    ttl: Duration,
) -> (Guard, Guard) {
    let (one, two) = (client(fleet, options).await, client(fleet, options).await);
    let lock = |client: &Client| client.mutex("a").ttl(ttl).renewal(Renewal::Off);
    let first = lock(&one).acquire_within(PATIENCE).await.unwrap();
    retry(async || fleet.servers().wait_in_sync()).await;
    fleet.servers().hand_over(1).unwrap();
    (first, free_soon(&lock(&two)).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d19_a_clock_that_is_less_than_half_a_second_ahead_makes_no_second_holder() {
    let (first, second) = taken_after_a_hand_over(&apart(0.4), "", TTL).await;
    assert!(!first.is_held(), "two hold");
    assert!(second.token() > first.token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d19_a_clock_that_is_ahead_by_more_than_half_a_second_makes_two_holders() {
    let ttl = Duration::from_secs(60); // the second is granted after 3 s
    for policy in ["replicas=none", "replicas=all"] {
        let (first, second) = taken_after_a_hand_over(&apart(57.0), policy, ttl).await;
        assert!(first.is_held() && second.is_held(), "exclusion is broken, as was expected");
        assert!(second.token() > first.token(), "but not the order of tokens");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d19_with_a_quarantine_a_clock_that_is_ahead_makes_no_second_holder() {
    let fleet = apart(5.0);
    let options = "quarantine=8s";
    let operator = client(&fleet, options).await;
    operator.admin().end_quarantine().await.unwrap();
    let (first, second) = taken_after_a_hand_over(&fleet, options, TTL).await;
    assert!(!first.is_held(), "two hold");
    assert!(second.token() > first.token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_apart_are_warned_of_on_connecting() {
    let warning = async |fleet: &SentinelFleet, options: &str| {
        use leasehold::store::{Redis, Store};
        let url = format!("{}?{options}", fleet.url());
        let store = Redis::open(options_of(&url)).await.unwrap();
        store.warnings().into_iter().find(|words| words.contains("clock"))
    };
    let patient = "timeout=30s";
    let fleet = apart(5.0);
    let words = warning(&fleet, patient).await.expect("it is far ahead");
    assert!(words.contains("leases end early") && words.contains("500ms is allowed"), "{words}");
    let words = warning(&apart(0.4), patient).await.expect("it is near");
    assert!(words.contains("drift further apart"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttl_that_leaves_nothing_is_refused_in_words() {
    let fleet = SentinelFleet::start().unwrap();
    let client = connect(fleet.url()).await;
    let lock = client.mutex("a").ttl(Duration::from_millis(600));
    let outcome = lock.try_acquire().await;
    let Err(Error::Invalid(invalid)) = &outcome else { panic!("{outcome:?}") };
    let words = invalid.to_string();
    assert!(words.contains("ttl") && words.contains("500ms"), "{words}");
}
