//! Sentinels that are down, that hang, that are wrong, or that are no sentinels.

use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error};
use leasehold_testkit::harness::apart;
use leasehold_testkit::{Data, RedisServer, SentinelFleet};
use tokio::time::timeout;

use crate::{LONG, connect, queued, retry, soon, until};

async fn refusal(url: &str) -> (StoreErrorKind, String) {
    let outcome = soon(Client::connect(url)).await;
    let Err(Error::Store(error)) = &outcome else { panic!("{outcome:?}") };
    assert!(!error.may_have_executed(), "{error}");
    let line = error.to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    (error.kind(), line)
}

#[tokio::test]
async fn each_wrong_url_is_refused_in_one_clear_line() {
    let fleet = SentinelFleet::start().unwrap();
    let plain = RedisServer::start().unwrap();
    let of_plain = SentinelFleet::url_of([&plain]);
    for (url, kind, words) in [
        (
            fleet.url().replace("/locks", "/lokcs"),
            StoreErrorKind::Unsupported,
            "the sentinel monitors no service \"lokcs\": is the name in the store URL right?",
        ),
        (of_plain, StoreErrorKind::Unsupported, "the server is no sentinel: give a primary itself"),
        (
            "redis+sentinel://127.0.0.1:1,127.0.0.1:2/locks".to_owned(),
            StoreErrorKind::Unreachable,
            "no sentinel names the primary of \"locks\": 127.0.0.1:",
        ),
        (
            format!("redis://127.0.0.1:{}", fleet.sentinels()[0].port()),
            StoreErrorKind::Unsupported,
            "the server is a sentinel",
        ),
    ] {
        let (found, line) = refusal(&url).await;
        assert_eq!(found, kind, "{line}");
        assert!(line.contains(words), "{line}");
    }
}

#[tokio::test]
async fn d9_a_server_that_says_it_is_a_replica_is_not_taken_for_the_primary() {
    let fleet = SentinelFleet::start().unwrap();
    let decoys = leasehold_testkit::Replicated::start(1).unwrap();
    let stray = SentinelFleet::stray(&decoys[1]).unwrap();
    let (kind, line) = refusal(&SentinelFleet::url_of([&stray])).await;
    assert_eq!(kind, StoreErrorKind::Unreachable);
    assert!(line.contains("the server is a replica"), "{line}");
    // The first primary that a sentinel names is used.
    let url = SentinelFleet::url_of([&stray, &fleet.sentinels()[0]]);
    let client = connect(&url).await;
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    assert_eq!(fleet.servers()[0].command::<u32>("EXISTS lh:{a}").unwrap(), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn d9_a_sentinel_that_names_another_server_ends_no_connection() {
    let servers = [RedisServer::start().unwrap(), RedisServer::start().unwrap()];
    let mut sentinels = servers.each_ref().map(|server| SentinelFleet::stray(server).unwrap());
    // All connections lead to the first server.
    sentinels[1].stop().unwrap();
    let client = connect(&SentinelFleet::url_of(&sentinels)).await;
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    guard.renew().await.unwrap();
    sentinels[1].cont().unwrap();
    sentinels[0].kill9().unwrap();
    let listening = || sentinels[1].command::<String>("CLIENT LIST TYPE pubsub").unwrap();
    until("the client listens to the other", async || !listening().is_empty()).await;
    for _ in 0..100 {
        guard.renew().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d9_without_any_sentinel_the_connections_that_there_are_keep_working() {
    let mut fleet = SentinelFleet::start().unwrap();
    let (client, other) = (connect(fleet.url()).await, connect(apart(fleet.url())).await);
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.mutex("a").acquire().await });
    queued(&client, "a", 1).await;
    // Without the sentinels, a connection for messages could not be made any more.
    let listeners = || {
        let channels: Vec<String> = fleet.servers()[0].command("PUBSUB CHANNELS *").unwrap();
        channels.iter().filter(|channel| !channel.starts_with("__sentinel__")).count()
    };
    until("both clients listen for messages", async || listeners() == 2).await;
    for sentinel in fleet.sentinels_mut() {
        sentinel.kill9().unwrap();
    }
    guard.renew().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    let (kind, _) = refusal(&apart(fleet.url())).await;
    assert_eq!(kind, StoreErrorKind::Unreachable);
    // Once one sentinel is back, new connections can be made: two are not needed.
    fleet.sentinels_mut()[2].restart(Data::Kept).unwrap();
    let late = connect(apart(fleet.url())).await;
    late.mutex("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_error_says_that_the_primary_hangs_and_not_its_sentinel() {
    let server = RedisServer::start().unwrap();
    let sentinel = SentinelFleet::stray(&server).unwrap();
    server.stop().unwrap();
    let (kind, line) = refusal(&SentinelFleet::url_of([&sentinel])).await;
    assert_eq!(kind, StoreErrorKind::Timeout, "{line}");
    let primary = format!("127.0.0.1:{}: the server does not answer", server.port());
    assert!(line.ends_with(&primary), "{line}");
}

/// The longest wait for a hanging sentinel that a URL can request.
const HANGS: Duration = Duration::from_secs(60);

#[tokio::test]
async fn d14_sentinels_that_hang_delay_nobody() {
    let fleet = SentinelFleet::start().unwrap();
    // A client that waited for a hanging sentinel would wait for longer than the test takes.
    let url = format!("{}?timeout={}s", fleet.url(), HANGS.as_secs());
    for hanging in [0, 1] {
        fleet.sentinels()[hanging].stop().unwrap();
        let client = timeout(HANGS / 2, Client::connect(&url)).await.unwrap().unwrap();
        client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    }
}

/// Whether a sentinel distrusts its clock, because it was stopped, and does nothing for a while.
fn is_in_tilt(sentinel: &RedisServer) -> bool {
    sentinel.info("sentinel").unwrap().contains("sentinel_tilt:1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d14_a_failover_needs_neither_a_tilted_sentinel_nor_its_answers() {
    let mut fleet = SentinelFleet::start().unwrap();
    let client = connect(fleet.url()).await;
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    fleet.servers().wait_in_sync().unwrap();
    let tilted = &fleet.sentinels()[0];
    until("it is in tilt", async || {
        tilted.stop().unwrap();
        // A gap of more than 2 s between two turns of its timer.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        tilted.cont().unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        is_in_tilt(tilted)
    })
    .await;
    fleet.servers_mut()[0].kill9().unwrap();
    retry(async || guard.renew().await).await;
    assert!(is_in_tilt(&fleet.sentinels()[0]), "it was of no use all the time");
    assert_eq!(fleet.servers().primary(), Some(1));
}

#[tokio::test]
async fn tls_is_spoken_with_sentinels_and_servers() {
    let secured = || RedisServer::options().tls(false);
    let fleet = SentinelFleet::start_with(secured(), &[100], secured()).unwrap();
    let files = fleet.servers()[0].certificates().unwrap();
    let url = format!("{}?ca={}", fleet.url(), files.authority.display());
    assert!(url.starts_with("rediss+sentinel://"));
    let client = connect(&url).await;
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    let (kind, line) = refusal(&apart(fleet.url())).await;
    assert_eq!(kind, StoreErrorKind::Denied);
    assert!(line.contains("ca="), "{line}");
}
