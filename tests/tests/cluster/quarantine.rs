//! `quarantine=` in a cluster: nodes that have forgotten who holds what, and slots that move before
//! anybody has noticed.

use std::time::{Duration, Instant};

use leasehold::error::StoreErrorKind;
use leasehold::lease::Renewal;
use leasehold::{Client, Error, Guard, LockName};
use leasehold_testkit::harness::{LOOK_EVERY, goes_on, renew, until};
use leasehold_testkit::{Cluster, Data, must};
use tokio::time::sleep;

use super::{
    LONG, PATIENCE, assert_nothing_denied, queued, soon, three_alone, url, with_least_rights,
};

/// In these tests, an operator ends a quarantine, except in tests about its end.
const ON: &str = "quarantine=1h&timeout=5s";

const SLOTS: usize = 16_384;

/// Connects to a cluster with these options.
async fn client(cluster: &Cluster, options: &str) -> Client {
    must(Client::connect(format!("{}?{options}", url(cluster))).await)
}

/// Two clients of a cluster that is known to be new.
async fn two(cluster: &Cluster) -> (Client, Client) {
    let clients = (client(cluster, ON).await, client(cluster, ON).await);
    must(clients.0.admin().end_quarantine().await);
    clients
}

/// Acquires on behalf of a holder that renews when the test says so.
async fn take(client: &Client, name: &LockName) -> Guard {
    let lock = client.mutex(name).ttl(LONG).renewal(Renewal::Off);
    must(lock.acquire_within(PATIENCE).await)
}

/// The answer that a newcomer gets, once a node answers.
async fn ask(client: &Client, name: &LockName) -> Result<Option<Guard>, Error> {
    let since = Instant::now();
    loop {
        match client.mutex(name).ttl(LONG).try_acquire().await {
            Err(error) if is_away(&error) && since.elapsed() < PATIENCE => sleep(LOOK_EVERY).await,
            outcome => return outcome,
        }
    }
}

fn is_away(error: &Error) -> bool {
    error.is_transient() && !is_quarantined(error)
}

fn is_quarantined(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.kind() == StoreErrorKind::Quarantined)
}

#[track_caller]
fn assert_quarantined(outcome: &Result<Option<Guard>, Error>) {
    assert!(outcome.as_ref().is_err_and(is_quarantined), "{outcome:?}");
}

#[track_caller]
fn assert_granted(outcome: Result<Option<Guard>, Error>) -> Guard {
    must(outcome).unwrap_or_else(|| panic!("it is held"))
}

/// How many boot records a node has.
fn records(cluster: &Cluster, node: usize) -> usize {
    let mut connection = must(cluster.node(node).connection());
    let mut find = redis::cmd("KEYS");
    must::<Vec<Vec<u8>>, _>(find.arg("lh:%boot*").query(&mut connection)).len()
}

/// After a node has forgotten everything: its holder goes on, nobody else is let in there, and the
/// other nodes' names are granted as ever.
async fn assert_only_its_names_wait(cluster: &Cluster, node: usize, held: &Guard, other: &Client) {
    assert_quarantined(&ask(other, &cluster.fresh_name(node).0).await);
    goes_on(held, other).await;
    assert_quarantined(&ask(other, held.name()).await);
    let elsewhere = cluster.fresh_name((node + 1) % 3).0;
    drop(assert_granted(ask(other, &elsewhere).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_ends_the_quarantine_of_all_slots_of_a_new_cluster() {
    let cluster = three_alone();
    let (one, other) = (client(&cluster, ON).await, client(&cluster, ON).await);
    let names = [0, 1, 2].map(|node| cluster.fresh_name(node).0);
    for name in &names {
        assert_quarantined(&ask(&one, name).await);
    }
    assert!(must(other.admin().end_quarantine().await));
    for name in &names {
        must(take(&one, name).await.release().await);
        must(take(&other, name).await.release().await);
    }
    let all: usize = (0..3).map(|node| records(&cluster, node)).sum();
    assert_eq!(all, SLOTS);
    assert_nothing_denied(&cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quarantine_of_a_slot_ends_by_itself() {
    let cluster = three_alone();
    let client = client(&cluster, "quarantine=2s").await;
    let (name, _) = cluster.fresh_name(1);
    let lock = client.mutex(&name).ttl(Duration::from_secs(2));
    drop(must(lock.acquire_within(PATIENCE).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_after_a_node_came_back_empty_its_holder_goes_on_and_nobody_else_is_let_in() {
    let mut cluster = three_alone();
    let (holder, other) = two(&cluster).await;
    let (name, _) = cluster.fresh_name(0);
    let held = take(&holder, &name).await;
    must(cluster.kill(0));
    must(cluster.restart(0, Data::Dropped));
    must(cluster.until_up());
    assert_only_its_names_wait(&cluster, 0, &held, &other).await;
    must(held.release().await);
    must(other.admin().end_quarantine().await);
    drop(take(&other, &name).await);
}

/// Otherwise a name that is requested once a week would wait weeks after the restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_who_finds_one_slot_in_quarantine_has_it_begin_in_all_of_that_node() {
    let mut cluster = three_alone();
    let (_, other) = two(&cluster).await;
    must(cluster.kill(0));
    must(cluster.restart(0, Data::Dropped));
    must(cluster.until_up());
    let before = records(&cluster, 1);
    assert_quarantined(&ask(&other, &cluster.fresh_name(0).0).await);
    let all = SLOTS / 3;
    until("all slots are in quarantine", async || records(&cluster, 0) == all).await;
    assert_eq!(records(&cluster, 1), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_after_a_flush_of_a_node_its_holder_goes_on_and_nobody_else_is_let_in() {
    for (replicas, options) in [(0, ""), (1, "&replicas=1")] {
        let cluster = must(Cluster::start(replicas));
        let url = format!("{}?{ON}{options}", cluster.url());
        let holder = must(Client::connect(&url).await);
        let other = must(Client::connect(&url).await);
        must(holder.admin().end_quarantine().await);
        let held = take(&holder, &cluster.fresh_name(1).0).await;
        must(cluster.node(1).command::<()>("FLUSHALL"));
        // The holder asks first, as its renewals do.
        must(renew(&held).await);
        assert_only_its_names_wait(&cluster, 1, &held, &other).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_after_a_failover_in_a_cluster_that_forgot_the_grant_the_holder_takes_it_back() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let (holder, other) = two(&cluster).await;
    let (name, slot) = cluster.fresh_name(0);
    must(cluster.until_replicated(0));
    must(cluster.stop(3));
    // Otherwise the kernel would keep later writes for the stopped process.
    must(cluster.node(0).command::<u32>("CLIENT KILL TYPE replica"));
    let held = take(&holder, &name).await;
    must(cluster.kill(0));
    must(cluster.cont(3));
    assert_eq!(must(cluster.until_taken_over(slot, 0)), 3);
    let exists = must(cluster.node(3).command::<u64>(&format!("EXISTS lh:{{{name}}}")));
    assert_eq!(exists, 0, "it was forgotten");
    assert_quarantined(&ask(&other, &name).await);
    goes_on(&held, &other).await;
    assert_quarantined(&ask(&other, &name).await);
}

/// One record for each primary would not be enough: the record of the slot's new node is in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e13_a_slot_that_moves_from_a_node_that_has_forgotten_is_in_quarantine_where_it_comes() {
    let cluster = three_alone();
    let (holder, other) = two(&cluster).await;
    let (name, slot) = cluster.fresh_name(0);
    let held = take(&holder, &name).await;
    must(cluster.node(0).command::<()>("FLUSHALL"));
    must(cluster.move_slot(slot, 1));
    assert_quarantined(&ask(&other, &name).await);
    goes_on(&held, &other).await;
    must(held.release().await);
    assert_quarantined(&ask(&other, &name).await);
    let elsewhere = cluster.fresh_name(1).0;
    drop(assert_granted(ask(&other, &elsewhere).await));
}

/// The second node has forgotten first; the record of the first node is as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e13_a_slot_that_comes_back_from_a_node_that_has_forgotten_is_in_quarantine() {
    let cluster = three_alone();
    let (holder, other) = two(&cluster).await;
    let (name, slot) = cluster.fresh_name(0);
    must(cluster.move_slot(slot, 1));
    must(holder.admin().end_quarantine().await);
    let held = take(&holder, &name).await;
    must(cluster.node(1).command::<()>("FLUSHALL"));
    must(cluster.move_slot(slot, 0));
    assert_quarantined(&ask(&other, &name).await);
    goes_on(&held, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_a_slot_that_moves_costs_its_holder_nothing_and_newcomers_a_quarantine() {
    let cluster = three_alone();
    let (holder, other) = two(&cluster).await;
    let (name, slot) = cluster.fresh_name(0);
    let held = take(&holder, &name).await;
    let waiting = tokio::spawn({
        let (other, name) = (other.clone(), name.clone());
        async move { must(other.mutex(&name).ttl(LONG).acquire().await).token() }
    });
    queued(&holder, &name, 1).await;
    must(cluster.move_slot(slot, 2));
    must(renew(&held).await);
    let token = held.token();
    must(held.release().await);
    assert_quarantined(&ask(&holder, &name).await);
    assert!(!waiting.is_finished(), "what it was handed does not count yet");
    must(holder.admin().end_quarantine().await);
    assert!(must(soon(waiting).await) > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_while_a_slot_moves_nothing_new_is_granted_and_nothing_is_in_its_way() {
    let cluster = three_alone();
    let (holder, other) = two(&cluster).await;
    let (tag, slot) = cluster.fresh_name(0);
    let name = |what: &str| must(LockName::new(format!("{{{tag}}}/{what}")));
    let held = take(&holder, &name("old")).await;
    let moving = must(cluster.begin_move(slot, 1));
    assert_quarantined(&ask(&other, &name("new")).await);
    must(renew(&held).await);
    assert_eq!(cluster.keys_in(1, slot), 0, "no record is written where the slot moves to");
    must(moving.move_keys());
    assert_quarantined(&ask(&other, &name("new")).await);
    must(renew(&held).await);
    must(moving.finish());
    must(renew(&held).await);
    assert_quarantined(&ask(&other, &name("new")).await);
    must(holder.admin().end_quarantine().await);
    drop(take(&other, &name("new")).await);
    must(held.release().await);
    assert_nothing_denied(&cluster);
}
