//! The program on a quorum of servers.

use leasehold_testkit::RedisServer;

use crate::harness::Place;

#[test]
fn a_command_is_run_seen_and_revoked_on_a_quorum() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let hosts: Vec<_> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let url = format!("redis+quorum://{}?quarantine=off&timeout=5s", hosts.join(","));
    let place = Place::at(url);
    let silent = place.end(&["run", "job", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN > token"]);
    assert_eq!(silent.code, Some(0), "{silent:?}");
    let first: u64 = place.read("token").trim().parse().unwrap();
    let _holder = place.holder("job", &["--label", "nightly"]);
    let table = place.end(&["ls"]).stdout;
    assert!(table.contains("job") && table.contains("nightly"), "{table}");
    let shown = place.show("job");
    let token: u64 = shown["holders"][0]["token"].as_str().unwrap().parse().unwrap();
    assert!(token > first);
    let busy = place.end(&["run", "job", "--no-wait", "--", "true"]);
    assert_ne!(busy.code, Some(0), "{busy:?}");
    let revoked = place.end(&["revoke", "job", &token.to_string(), "--force"]);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_eq!(place.end(&["run", "job", "--", "true"]).code, Some(0));
}

#[test]
fn a_command_that_a_quorum_can_never_grant_ends_at_once() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let hosts: Vec<_> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let url = format!("redis+quorum://{}?timeout=5s", hosts.join(","));
    let place = Place::at(url);
    for wait in [None, Some("--no-wait")] {
        let mut words = vec!["run", "job", "--ttl", "2m"];
        words.extend(wait);
        words.extend(["--", "true"]);
        let refused = place.end(&words);
        assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
        assert!(refused.stderr.contains("write quarantine=off"), "{refused:?}");
        assert_eq!(refused.stderr.trim().lines().count(), 1, "{refused:?}");
    }
}

#[test]
fn readers_and_permits_are_refused_at_once_also_while_the_nodes_are_away() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let hosts: Vec<_> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let url = format!("redis+quorum://{}?quarantine=off&timeout=5s", hosts.join(","));
    let place = Place::at(url);
    let refusals = || {
        for words in [
            &["run", "gpu", "--shared", "--", "true"][..],
            &["run", "gpu", "--permits", "1/1", "--no-wait", "--", "true"],
            &["hold", "gpu", "--permits", "2/2"],
            &["take", "gpu", "--permits", "1/4", "--for", "1h", "--log", "log"],
        ] {
            place.end(words).assert_failed(2, "a quorum has neither readers nor permits");
        }
    };
    refusals();
    drop(servers);
    refusals();
}
