//! A list of nodes that is no quorum is refused, with a reason.

use leasehold::store::{Memory, Quorum, Store};
use leasehold_testkit::harness::refusal;
use leasehold_testkit::{Cluster, Replicated, must};

use crate::fleet::{Fleet, url};

fn stores(count: usize) -> Vec<Box<dyn Store>> {
    (0..count).map(|_| Box::new(Memory::new()) as Box<dyn Store>).collect()
}

#[tokio::test]
async fn a_quorum_has_three_to_nine_nodes() {
    for count in [1, 2, 10] {
        let refused = Quorum::new(stores(count)).map(drop).map_err(|refused| refused.to_string());
        assert!(refused.is_err_and(|words| words.contains("3 to 9")), "{count}");
    }
    assert!(Quorum::new(stores(9)).is_ok());
    let words = refusal("redis+quorum://127.0.0.1:1,127.0.0.1:2").await;
    assert!(words.contains("3 to 9"), "{words}");
}

#[tokio::test]
async fn an_even_number_of_nodes_is_warned_of() {
    let warnings = must(Quorum::new(stores(4))).warnings();
    assert!(warnings.iter().any(|words| words.contains("no more failures than one of 3")));
    assert!(must(Quorum::new(stores(5))).warnings().is_empty());
}

#[tokio::test]
async fn one_server_under_two_names_is_refused() {
    let fleet = Fleet::start(2);
    let (one, two) = (fleet.servers[0].port(), fleet.servers[1].port());
    let words = refusal(&url([one, two, one].into_iter())).await;
    assert!(words.contains("twice"), "{words}");
    let twice = format!("redis+quorum://127.0.0.1:{one},127.0.0.1:{two},localhost:{one}");
    let words = refusal(&twice).await;
    assert!(words.contains("the same server"), "{words}");
}

#[tokio::test]
async fn masters_of_one_cluster_are_refused() {
    let cluster = must(Cluster::start(0));
    let words = refusal(&url((0..3).map(|index| cluster.node(index).port()))).await;
    assert!(words.contains("many tutorials call that Redlock"), "{words}");
}

#[tokio::test]
async fn replicas_of_each_other_are_refused() {
    let pair = must(Replicated::start(1));
    let fleet = Fleet::start(1);
    let ports = [pair[0].port(), pair[1].port(), fleet.servers[0].port()];
    let words = refusal(&url(ports.into_iter())).await;
    assert!(words.contains("replica"), "{words}");
}
