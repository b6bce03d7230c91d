//! Servers and sentinels have different passwords, and neither is shown to the other.
//!
//! The password for sentinels comes from the environment, so each case is a separate process.

use leasehold::store::Redis;
use leasehold_testkit::harness::connect;
use leasehold_testkit::worker::{self, Worker};
use leasehold_testkit::{RedisServer, SentinelFleet, must};

const VARIABLE: &str = "LEASEHOLD_SENTINEL_PASSWORD";

/// Takes a lock of the store named in the arguments, and prints the result.
pub(crate) fn job() {
    let [url] = &worker::arguments()[..] else { panic!("one URL is wanted") };
    let runtime = must(tokio::runtime::Builder::new_multi_thread().enable_all().build());
    runtime.block_on(async {
        match leasehold::Client::connect(url).await {
            Ok(client) => match client.mutex("a").try_acquire().await {
                Ok(Some(guard)) => {
                    must(guard.release().await);
                    worker::say("held");
                }
                other => worker::say(&format!("{other:?}")),
            },
            Err(error) => worker::say(&error.to_string()),
        }
    });
}

fn outcome(url: &str, password: Option<&str>) -> String {
    let environment: Vec<_> = password.map(|password| (VARIABLE, password)).into_iter().collect();
    must(Worker::start_in(&environment, &[url]).hear().ok_or("it said nothing"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_passwords_of_servers_and_sentinels_are_kept_apart() {
    let watcher = format!("watcher on >looking {}", Redis::SENTINEL_RIGHTS);
    let servers = RedisServer::options().holder();
    let sentinels = RedisServer::options().password("watching").user(&watcher);
    let fleet = SentinelFleet::start_with(servers, &[100], sentinels).unwrap();
    let url = fleet.url_as("holder", "secret");
    assert_eq!(outcome(&url, Some("watching")), "held");
    let as_watcher = format!("{url}?sentinel_user=watcher");
    assert_eq!(outcome(&as_watcher, Some("looking")), "held");
    for sentinel in fleet.sentinels() {
        assert_eq!(sentinel.acl_log().unwrap(), [], "a watcher needs no more rights");
    }
    for (url, password, words) in [
        (&url, None, "the sentinel asks for a password: give it in LEASEHOLD_SENTINEL_PASSWORD"),
        (&url, Some("secret"), "wrong sentinel_user or LEASEHOLD_SENTINEL_PASSWORD"),
        (&as_watcher, Some("watching"), "wrong sentinel_user or LEASEHOLD_SENTINEL_PASSWORD"),
        (&fleet.url_as("holder", "watching"), Some("watching"), "wrong user or password"),
    ] {
        let line = outcome(url, password);
        assert!(line.contains(words), "{line}");
        assert!(!line.contains("secret") && !line.contains("watching"), "{line}");
    }
}

#[tokio::test]
async fn sentinels_without_a_password_may_watch_servers_that_have_one() {
    let servers = RedisServer::options().password("secret");
    let fleet = SentinelFleet::start_with(servers, &[100], RedisServer::options()).unwrap();
    let client = connect(fleet.url_as("default", "secret")).await;
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
}
