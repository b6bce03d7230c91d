//! H14, H18: the identity of the nodes, for one client and for others.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::store::connect;
use leasehold::{Client, Guard};
use leasehold_testkit::harness::soon;
use leasehold_testkit::{Data, RedisServer, must};

use crate::fleet::{Fleet, Network, name, url};

/// A client whose nodes keep a quarantine or not, and are not in quarantine now.
async fn client(network: &Network, quarantine: &str) -> Client {
    let url = network.url().replace("quarantine=off", quarantine);
    let client = must(Client::connect(url).await);
    must(client.admin().end_quarantine().await);
    client
}

/// The address of one node comes to lead to another, as that of a service or of a proxy may: it
/// does not count twice.
#[tokio::test]
async fn h18_an_address_that_comes_to_lead_to_another_node_does_not_count() {
    for quarantine in ["quarantine=off", "quarantine=1h"] {
        let fleet = Fleet::start(3);
        let (left, right) = (fleet.network(), fleet.network());
        let (one, two) = (client(&left, quarantine).await, client(&right, quarantine).await);
        let lock = |client: &Client| {
            client.mutex("twice").ttl(Duration::from_secs(60)).renewal(Renewal::Off)
        };
        must(must(soon(lock(&one).acquire()).await).release().await);
        for index in 0..3 {
            fleet.until_free(index, &name("twice")).await;
        }
        left.proxies[1].lead_to(fleet.servers[0].port());
        left.swallow(&[2], true);
        right.swallow(&[0], true);
        for _ in 0..10 {
            let refused = soon(lock(&one).try_acquire()).await;
            assert!(!matches!(refused, Ok(Some(_))), "{quarantine}: one node is no majority");
        }
        let held = must(soon(lock(&two).acquire()).await);
        let refused = soon(lock(&one).try_acquire()).await;
        assert!(!matches!(refused, Ok(Some(_))), "{quarantine}: two hold");
        must(held.release().await);
        left.proxies[1].lead_to(fleet.servers[1].port());
        drop(must(soon(lock(&one).acquire()).await));
    }
}

/// The warning that a new client gets once it has left its list at all of its nodes: the number of
/// other lists. If a busy machine was too slow to answer, the next client gets it.
async fn told_of(fleet: &Fleet, ports: &[u16], lists: usize) -> Vec<String> {
    let patient = url(ports.iter().copied()).replace("500ms", "20s");
    let mut sorted = ports.to_vec();
    sorted.sort_unstable(); // as clients do
    let hosts: Vec<_> = sorted.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let has_left = |port: &u16| {
        let server = fleet.servers.iter().find(|server| server.port() == *port);
        let record: Vec<String> =
            must(must(server.ok_or("a node is down")).command("HVALS lh:%nodes"));
        record.iter().any(|list| list.ends_with(&format!("\n{}", hosts.join(","))))
    };
    soon(async {
        loop {
            let mut words = must(connect(&patient).await).warnings();
            words.retain(|words| words.contains("other clients"));
            if words.len() == lists && ports.iter().all(has_left) {
                return words;
            }
        }
    })
    .await
}

/// Two lists that have one node in common: each has its own majority, and the second client is
/// told.
#[tokio::test]
async fn h14_clients_with_different_lists_of_nodes_may_both_hold_and_are_warned() {
    let fleet = Fleet::start(5);
    let ports: Vec<u16> = fleet.servers.iter().map(RedisServer::port).collect();
    told_of(&fleet, &ports[..3], 0).await;
    let turned: Vec<u16> = ports[..3].iter().rev().copied().collect();
    let store = must(connect(&url(turned.into_iter())).await);
    assert!(!store.warnings().iter().any(|words| words.contains("other clients")), "the same");
    let told = told_of(&fleet, &ports[2..], 1).await;
    for port in &ports {
        assert!(told[0].contains(&port.to_string()), "both lists are named: {told:?}");
    }
    told_of(&fleet, &ports[..3], 1).await;
    told_of(&fleet, &ports, 2).await;
    for quarantine in ["quarantine=off", "quarantine=1h"] {
        let mut held = Vec::new();
        for ports in [&ports[..3], &ports[2..]] {
            let url = url(ports.iter().copied()).replace("quarantine=off", quarantine);
            let client = must(Client::connect(url).await);
            must(client.admin().end_quarantine().await);
            let lock = client.mutex(quarantine).ttl(Duration::from_secs(60)).renewal(Renewal::Off);
            held.push(must(soon(lock.acquire()).await));
        }
        assert!(held.iter().all(Guard::is_held), "{quarantine}: both at once");
    }
}

/// Clients that move to other nodes as planned: a client that stops is forgotten.
#[tokio::test]
async fn h14_a_list_that_nobody_uses_any_more_is_forgotten() {
    let fleet = Fleet::start_with(4, &RedisServer::options().own_clock());
    let ports: Vec<u16> = fleet.servers.iter().map(RedisServer::port).collect();
    told_of(&fleet, &ports[..3], 0).await;
    told_of(&fleet, &ports[1..], 1).await;
    for server in &fleet.servers {
        must(server.set_clock(301.0, 1.0));
    }
    told_of(&fleet, &ports[1..], 0).await;
    told_of(&fleet, &ports[..3], 1).await;
}

/// A node that has lost its data has lost its id, too. Earlier clients say which list is out of
/// use.
#[tokio::test]
async fn h14_a_node_that_has_lost_its_data_is_not_taken_for_another() {
    let mut fleet = Fleet::start(3);
    let ports: Vec<u16> = fleet.servers.iter().map(RedisServer::port).collect();
    told_of(&fleet, &ports, 0).await;
    let client = fleet.client().await;
    must(fleet.servers[1].restart(Data::Dropped));
    let using = async {
        loop {
            // The client connects again only where that is needed.
            drop(client.mutex("used").try_acquire().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = using => {}
        _ = told_of(&fleet, &ports, 0) => {}
    }
}
