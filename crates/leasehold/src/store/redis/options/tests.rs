//! Options of a program, compared with URLs.

use std::error::Error as _;
use std::time::Duration;

use leasehold_core::StoreError;

use super::settings::DEFAULT_OFFSET;
use super::*;
use crate::store::redis::connection::error;

const SECOND: Duration = Duration::from_secs(1);

/// All options as text, except for the login, which no `Debug` shows.
fn shown(options: &RedisOptions) -> String {
    format!("{options:?}")
}

#[test]
fn whatever_a_url_says_can_be_said_by_a_setter() {
    let standalone = || RedisOptions::standalone("h", 6379);
    let tls = || standalone().tls();
    for (url, options) in [
        ("redis://h/3", standalone().database(3)),
        ("redis://u:p@h", standalone().user("u").password("p")),
        ("redis+unix:///run/a.sock", RedisOptions::unix("/run/a.sock")),
        ("redis+sentinel://a:1,b/main", RedisOptions::sentinel([("a", 1), ("b", 26379)], "main")),
        ("redis+cluster://a:1,b", RedisOptions::cluster([("a", 1), ("b", 6379)])),
        ("redis+quorum://a:1,b,c", RedisOptions::quorum([("a", 1), ("b", 6379), ("c", 6379)])),
        ("rediss://h", tls()),
        ("rediss://h?ca=/a&cert=/b&key=/c", tls().ca("/a").cert("/b").key("/c")),
        ("rediss://h?insecure=on", tls().insecure(true)),
        ("redis://h?connect_timeout=1s", standalone().connect_timeout(SECOND)),
        ("redis://h?layout=plain", standalone().layout(LayoutName::Plain)),
        (
            "redis://h?layout=redisson&fenced=on",
            standalone().layout(LayoutName::Redisson).fenced(true),
        ),
        ("redis://h?offset=1s", standalone().offset(SECOND)),
        ("redis://h?prefix=app:", standalone().prefix("app:")),
        ("redis://h?quarantine=1s", standalone().quarantine(Some(SECOND))),
        ("redis://h?quarantine=off", standalone().quarantine(None)),
        (
            "redis+cluster://a?quarantine=on",
            RedisOptions::cluster([("a", 6379)]).quarantine(Some(QUARANTINE)),
        ),
        ("redis://h?replicas=2", standalone().replicas(Replicas::AtLeast(2))),
        ("redis://h?replicas=all", standalone().replicas(Replicas::All)),
        ("redis://h?timeout=1s", standalone().timeout(SECOND)),
        ("redis://h?waitaof=on", standalone().waitaof(true)),
    ] {
        assert_eq!(shown(&RedisOptions::from_url(url).unwrap()), shown(&options), "{url}");
    }
}

#[test]
fn what_does_not_go_together_is_refused_with_the_words_for_the_url() {
    let standalone = || RedisOptions::standalone("h", 6379);
    let nodes = || [("a", 6379), ("b", 6379), ("c", 6379)];
    for (url, options) in [
        ("redis://bob@h", standalone().user("bob")),
        ("redis://h?timeout=5ms", standalone().timeout(Duration::from_millis(5))),
        ("redis://h?quarantine=0s", standalone().quarantine(Some(Duration::ZERO))),
        ("redis://h?offset=11s", standalone().offset(11 * SECOND)),
        ("redis://h?prefix=a%0a", standalone().prefix("a\n")),
        ("redis://h?replicas=0", standalone().replicas(Replicas::AtLeast(0))),
        ("redis://h?sentinel_user=a", standalone().sentinel_user("a")),
        ("rediss://h?insecure=on&ca=/a", standalone().tls().insecure(true).ca("/a")),
        ("rediss://h?cert=/a", standalone().tls().cert("/a")),
        ("redis://h?insecure=on", standalone().insecure(true)),
        ("redis://h?key=/a", standalone().key("/a")),
        ("redis+cluster://a/1", RedisOptions::cluster([("a", 6379)]).database(1)),
        ("redis+cluster://a,a", RedisOptions::cluster([("a", 6379), ("a", 6379)])),
        ("redis+sentinel://a", RedisOptions::sentinel([("a", 26379)], "")),
        ("redis+unix://run/a.sock", RedisOptions::unix("run/a.sock")),
        (
            "redis://h?layout=plain&quarantine=on",
            standalone().layout(LayoutName::Plain).quarantine(Some(QUARANTINE)),
        ),
        (
            "redis://h?layout=redisson&quarantine=on",
            standalone().layout(LayoutName::Redisson).quarantine(Some(QUARANTINE)),
        ),
        (
            "redis+quorum://a,b,c?layout=redisson",
            RedisOptions::quorum(nodes()).layout(LayoutName::Redisson),
        ),
        ("redis://h?fenced=on", standalone().fenced(true)),
    ] {
        let of_url = RedisOptions::from_url(url).and_then(|options| options.0.check());
        assert_eq!(of_url.unwrap_err(), options.0.check().unwrap_err(), "{url}");
    }
    let socket = RedisOptions::unix("/run/a.sock").tls();
    assert!(socket.0.check().unwrap_err().why.contains("no TLS"));
    assert!(RedisOptions::cluster([("", 1)]).0.check().unwrap_err().why.contains("no host"));
    assert!(RedisOptions::standalone("h", 0).0.check().unwrap_err().why.contains("the port"));
    let nobody: [(&str, u16); 0] = [];
    assert!(RedisOptions::quorum(nobody).0.check().unwrap_err().why.contains("no host"));
}

#[test]
fn no_debug_shows_a_secret() {
    let options = RedisOptions::sentinel([("a", 26379)], "main")
        .user("hunter")
        .password("hunter2")
        .sentinel_user("hunter")
        .sentinel_password("hunter2".to_owned());
    assert!(!shown(&options).contains("hunter"), "{options:?}");
    let secret = Secret::from("hunter2");
    assert!(!format!("{secret:?}").contains("hunter"));
    let options = options.password_from(|| async { Ok("hunter2".into()) });
    assert!(!shown(&options).contains("hunter"), "{options:?}");
}

#[test]
fn the_words_of_a_password_source_that_fails_are_not_shown() {
    let failure: StoreError = error::no_password("h:1", "no token for hunter2".into());
    assert!(!failure.to_string().contains("hunter2"), "{failure}");
    assert!(failure.kind().is_transient());
    assert!(failure.source().unwrap().to_string().contains("hunter2"), "the source has it");
}

#[test]
fn clocks_may_be_apart_where_a_server_may_take_over() {
    let offset =
        |url: &str, is_followed| RedisOptions::from_url(url).unwrap().0.clock_offset(is_followed);
    for url in ["redis+sentinel://a/main", "redis+cluster://a", "redis://h?replicas=1"] {
        assert_eq!(offset(url, false), DEFAULT_OFFSET, "{url}");
    }
    assert_eq!(offset("redis://h", false), Duration::ZERO);
    assert_eq!(offset("redis://h", true), DEFAULT_OFFSET);
    assert_eq!(offset("redis+sentinel://a/main?quarantine=on", true), Duration::ZERO);
    assert_eq!(offset("redis+cluster://a?quarantine=on", true), Duration::ZERO);
    assert_eq!(offset("redis+quorum://a,b,c?quarantine=off", true), Duration::ZERO);
    assert_eq!(offset("redis+cluster://a?offset=2s", false), Duration::from_secs(2));
    assert_eq!(offset("redis+cluster://a?offset=0s", false), Duration::ZERO);
}
