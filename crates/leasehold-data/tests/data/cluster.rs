//! Data in a cluster: a record is in one slot, whatever its name is and wherever the slot moves.
#![cfg(feature = "redis")]

use leasehold::Error;
use leasehold::error::StoreErrorKind;
use leasehold_data::Data;
use leasehold_testkit::harness::{refusals, soon};
use leasehold_testkit::{Cluster, must};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

/// How many random names are asked for.
const NAMES: usize = 300;

/// Names with characters that could mislead a parser of hash tags.
fn odd_names() -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let odd = "[{}%a:/é語]{1,8}";
    (0..NAMES).map(|_| must(odd.new_tree(&mut runner)).current()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_legal_name_is_asked_for_at_the_node_that_serves_its_whole_record() {
    let cluster = must(Cluster::start(0));
    let data = Data::connect(cluster.url()).await.unwrap();
    for name in odd_names() {
        let stock = data.stock(&name);
        stock.restock("delivery", [("lamp", 1)]).await.unwrap();
        assert!(stock.deduct("order", [("lamp", 1)]).await.unwrap().is_taken(), "{name}");
    }
    for node in 0..3 {
        for code in ["ASK", "CROSSSLOT", "MOVED", "TRYAGAIN"] {
            assert_eq!(refusals(&cluster, node, code), 0, "node {node} said {code}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_that_is_half_moved_refuses_in_words_and_loses_nothing() {
    let cluster = must(Cluster::start(0));
    let slot = cluster.slot_of("{shop}").unwrap();
    let from = cluster.owner(slot).unwrap();
    let to = (from + 1) % 3;
    let data = Data::connect(cluster.url()).await.unwrap();
    let stock = data.stock("shop");
    stock.restock("delivery", [("lamp", 5)]).await.unwrap();
    assert!(cluster.keys_in(from, slot) > 1, "or nothing can be half-way");

    let moving = cluster.begin_move(slot, to).unwrap();
    let port = cluster.node(to).port();
    let half = format!("MIGRATE 127.0.0.1 {port} lh:%stock:{{shop}} 0 5000");
    cluster.node(from).command::<()>(&half).unwrap();
    let outcome = stock.deduct("order", [("lamp", 1)]).await;
    let Err(Error::Store(error)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(!error.may_have_executed(), "{error}");
    assert!(refusals(&cluster, from, "TRYAGAIN") > 1, "it was tried again before that");
    // A waiting call is served once the missing pieces have come.
    let waiting = tokio::spawn({
        let stock = stock.clone();
        async move {
            loop {
                match stock.deduct("order", [("lamp", 1)]).await {
                    Err(Error::Store(error)) if !error.may_have_executed() => {}
                    outcome => return outcome.map(|outcome| outcome.is_taken()),
                }
            }
        }
    });
    moving.move_keys().unwrap();
    moving.finish().unwrap();
    assert!(soon(waiting).await.unwrap().unwrap());
    assert_eq!(stock.level("lamp").await.unwrap(), 4, "it was taken once");
}
