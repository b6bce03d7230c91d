//! The program on a quorum of servers.

use leasehold_testkit::three_nodes;

use crate::harness::Place;

#[test]
fn a_command_that_a_quorum_can_never_grant_ends_at_once() {
    let (_servers, url) = three_nodes("timeout=5s");
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
    let (servers, url) = three_nodes("quarantine=off&timeout=5s");
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
