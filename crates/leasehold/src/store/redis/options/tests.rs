//! URLs, and options that a program sets.

use std::error::Error as _;
use std::fs;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold_core::StoreError;

use super::*;
use crate::store::options::assert_told;
use crate::store::secret::{Password, Secret};
use crate::store::socket::no_password;

fn parse(url: &str) -> Result<RedisOptions, String> {
    RedisOptions::read(url, Some(&|_| None)).map_err(|refusal| refusal.why)
}

fn address(url: &str) -> String {
    parse(url).unwrap().servers.to_string()
}

fn revealed(login: &Login) -> Option<String> {
    let fetched = login.password.as_ref()?.fetch().now_or_never();
    Some(fetched.unwrap().unwrap().reveal().to_owned())
}

#[test]
fn the_manual_has_a_row_for_each_option_and_no_other() {
    assert_told(crate::store::MANUAL, &parse("redis://h?ttl=1s").unwrap_err());
}

#[test]
fn a_host_may_have_a_port_a_database_and_credentials() {
    let options = parse("redis://bob:p%40ss%2F@db.example:7000/3").unwrap();
    assert_eq!(options.servers.to_string(), "db.example:7000");
    assert_eq!((options.login.user(), options.database), ("bob", 3));
    assert_eq!(revealed(&options.login).as_deref(), Some("p@ss/"));
    assert_eq!(address("redis://h"), "h:6379");
    assert_eq!(address("valkey://[::1]:1/"), "[::1]:1");
    assert_eq!(parse("redis://:pw@h").unwrap().login.user(), "default");
}

#[test]
fn a_unix_socket_may_have_credentials() {
    let options = parse("redis+unix://u:p@/run/a%20b.sock?timeout=1s").unwrap();
    assert_eq!(
        options.servers,
        Servers::Standalone(Address { host: "/run/a b.sock".to_owned(), port: 0 })
    );
    assert_eq!(options.login.user(), "u");
    assert_eq!(options.timeout, Some(Duration::from_secs(1)));
}

#[test]
fn every_option_is_read() {
    let options = parse(
        "rediss://h?ca=/a.pem&cert=/b.pem&key=/c.pem&prefix=app%3A&\
         timeout=100ms&layout=plain&quarantine=off&replicas=2",
    )
    .unwrap();
    assert!(options.tls);
    assert_eq!(options.ca, Some("/a.pem".into()));
    let pair = (options.cert.clone(), options.key.clone());
    assert_eq!(pair, (Some("/b.pem".into()), Some("/c.pem".into())));
    assert_eq!(options.prefix.as_deref(), Some("app:"));
    assert_eq!(options.timeout, Some(Duration::from_millis(100)));
    assert_eq!((options.layout, options.replicas), (LayoutName::Plain, Replicas::AtLeast(2)));
    assert_eq!(options.quarantine, Quarantine::Off);
    assert_eq!(parse("redis://h?prefix=").unwrap().prefix.as_deref(), Some(""));
}

#[test]
fn a_fleet_is_several_hosts_and_what_they_are() {
    let hosts = [("a", 1), ("b", 6379)];
    let nodes = hosts.map(|(host, port)| Address { host: host.to_owned(), port }).to_vec();
    assert_eq!(parse("redis+cluster://a:1,b").unwrap().servers, Servers::Cluster(nodes.clone()));
    let quorum = parse("valkey+quorum://u:p@a:1,b/2").unwrap();
    assert!(quorum.quarantine().is_some(), "on unless somebody says otherwise");
    assert_eq!((quorum.servers, quorum.database), (Servers::Quorum(nodes), 2));
    assert_eq!(parse("redis+quorum://a,b?quarantine=off").unwrap().quarantine(), None);
    assert_eq!(parse("redis+quorum://a,b?layout=plain").unwrap().quarantine(), None);
    let service = parse("rediss+sentinel://a:1,b/main/3").unwrap();
    assert!(service.tls && service.database == 3);
    assert_eq!(service.servers.to_string(), "service main of sentinels a:1,b:26379");
}

#[test]
fn redissons_locks_have_bare_keys_and_neither_a_quorum_nor_a_quarantine() {
    let refusal = |url: &str| parse(url).unwrap_err();
    assert!(refusal("redis+quorum://a,b,c?layout=redisson").contains("sentinels or a cluster"));
    assert!(refusal("redis://h?layout=redisson&quarantine=on").contains("do not keep it"));
    let bare = parse("redis://h?layout=redisson").unwrap();
    assert_eq!((bare.lock_prefix(), bare.prefix()), ("", "lh:"));
    let mapped = parse("redis+cluster://a?prefix=app:&layout=redisson-fenced").unwrap();
    assert_eq!((mapped.lock_prefix(), mapped.layout), ("app:", LayoutName::RedissonFenced));
}

#[test]
fn each_wrong_part_is_named() {
    for (url, part) in [
        ("redis:h", "`://`"),
        ("http://h", "\"http\""),
        ("redis+galaxy://h", "\"redis+galaxy\""),
        ("rediss+unix:///run/a.sock", "\"rediss+unix\""),
        ("redis+cluster://a:1,a:1", "a:1 twice"),
        ("redis+cluster://a,,b", "no host"),
        ("redis+cluster://a/1", "no databases"),
        ("redis+sentinel://a:1", "no service"),
        ("redis+sentinel://a:1/main/x", "the database"),
        ("redis://", "no host"),
        ("redis:///0", "no host"),
        ("redis://a,b", "several hosts"),
        ("redis://[::1", "no `]`"),
        ("redis://[::1]1", "the port"),
        ("redis://h:99999", "the port"),
        ("redis://h:0", "the port"),
        ("redis://h:", "the port"),
        ("redis://h/zero", "the database"),
        ("redis://h/-1", "the database"),
        ("redis://bob@h", "a user and no password"),
        ("redis://b%zz:p@h", "the user"),
        ("redis://b:p%f@h", "the password"),
        ("redis://h?ttl=1s", "\"ttl\""),
        ("redis://h?timeout", "has no value"),
        ("redis://h?timeout=10", "write 10s"),
        ("redis://h?timeout=5ms", "`timeout`"),
        ("redis://h?retention=1s", "\"retention\""),
        ("redis://h?connect_timeout=2m", "\"connect_timeout\""),
        ("redis://h?timeout=1s&timeout=2s", "twice"),
        ("redis://h?layout=redlock", "or redisson-fenced"),
        ("redis://h?quarantine=soon", "on or off"),
        ("redis://h?replicas=0", "`replicas`"),
        ("redis://h?replicas=some", "`replicas`"),
        ("redis://h?sentinel_user=a", "`sentinel_user`"),
        ("redis://h?prefix=a%0a", "`prefix`"),
        ("redis+cluster://h?prefix=a%7b%7db", "`prefix`"),
        ("redis://h?ca=/a", "`ca`"),
        ("rediss://h?cert=/a", "give both"),
        ("redis+unix://run/a.sock", "three slashes"),
        ("redis+unix://", "three slashes"),
    ] {
        let why = parse(url).unwrap_err();
        assert!(why.contains(part), "{url}: {why}");
        assert!(!why.contains('\n'), "{url}: {why}");
    }
}

#[test]
fn options_that_a_program_sets_are_refused_like_those_of_a_url() {
    let with = |url: &str, set: fn(&mut RedisOptions)| {
        let mut options = parse(url).unwrap();
        set(&mut options);
        options.check().unwrap_err().why
    };
    assert!(with("redis://h", |it| it.replicas = Replicas::AtLeast(0)).contains("`replicas`"));
    assert!(with("redis://h", |it| it.timeout = Some(Duration::ZERO)).contains("`timeout`"));
    assert!(with("redis://h", |it| it.login.user = Some("bob".into())).contains("no password"));
}

#[test]
fn no_debug_shows_a_secret() {
    let mut options = parse("redis+sentinel://a/main").unwrap();
    for login in [&mut options.login, &mut options.sentinel_login] {
        (login.user, login.password) = (Some("hunter".into()), Some("hunter2".into()));
    }
    assert!(!format!("{options:?}").contains("hunter"), "{options:?}");
    assert!(!format!("{:?}", Secret::from("hunter2")).contains("hunter"));
    options.login.password = Some(Password::from_source(|| async { Ok("hunter2".into()) }));
    assert!(!format!("{options:?}").contains("hunter"), "{options:?}");
}

#[test]
fn the_words_of_a_password_source_that_fails_are_not_shown() {
    let failure: StoreError = no_password("h:1", "no token for hunter2".into());
    assert!(!failure.to_string().contains("hunter2"), "{failure}");
    assert!(failure.kind().is_transient());
    assert!(failure.source().unwrap().to_string().contains("hunter2"), "the source has it");
}

#[test]
fn clocks_may_be_apart_where_a_server_may_take_over() {
    let offset = |url: &str, is_followed| parse(url).unwrap().clock_offset(is_followed);
    for url in ["redis+cluster://a", "redis://h?replicas=1"] {
        assert_eq!(offset(url, false), OFFSET, "{url}");
    }
    assert_eq!(offset("redis+sentinel://a/main", false), OFFSET);
    assert_eq!(offset("redis://h", false), Duration::ZERO);
    assert_eq!(offset("redis://h", true), OFFSET);
    assert_eq!(offset("redis+sentinel://a/main?quarantine=on", true), Duration::ZERO);
    assert_eq!(offset("redis+cluster://a?quarantine=on", true), Duration::ZERO);
    assert_eq!(offset("redis+quorum://a,b,c?quarantine=off", true), Duration::ZERO);
}

#[test]
fn a_password_may_come_from_the_environment_or_a_file() {
    const PASSWORD: &str = "LEASEHOLD_PASSWORD";
    const PASSWORD_FILE: &str = "LEASEHOLD_PASSWORD_FILE";
    let file = std::env::temp_dir().join(format!("leasehold-password-{}", std::process::id()));
    fs::write(&file, "from file\n").unwrap();
    let path = file.display().to_string();
    let both = |name: &str| match name {
        PASSWORD => Some("from env".to_owned()),
        PASSWORD_FILE => Some(path.clone()),
        _ => None,
    };
    let only_file = |name: &str| (name == PASSWORD_FILE).then(|| path.clone());
    let password = |url, environment: &dyn Fn(&str) -> Option<String>| {
        let options = RedisOptions::read(url, Some(environment)).unwrap();
        revealed(&options.login).unwrap()
    };
    assert_eq!(password("redis://h", &both), "from env");
    assert_eq!(password("redis://u@h", &only_file), "from file");
    assert_eq!(password("redis://u:url@h", &both), "url");
    let of = |url| RedisOptions::read(url, Some(&only_file)).unwrap();
    assert!(of("redis://h") == of("redis://h") && of("redis://h") != of("redis://:url@h"));
    fs::remove_file(&file).unwrap();
    let refusal = RedisOptions::read("redis://h", Some(&only_file)).unwrap_err();
    assert!(refusal.why.contains("LEASEHOLD_PASSWORD_FILE"), "{refusal}");
}

#[test]
fn sentinels_have_their_own_password() {
    let environment = |name: &str| (name == SENTINEL_PASSWORD).then(|| "watch".to_owned());
    let options = RedisOptions::read("redis+sentinel://a/main", Some(&environment)).unwrap();
    assert_eq!(revealed(&options.sentinel_login).as_deref(), Some("watch"));
    assert_eq!(revealed(&options.login), None);
    let why = parse("redis+sentinel://a/main?sentinel_user=eve").unwrap_err();
    assert!(why.contains(SENTINEL_PASSWORD), "{why}");
}
