//! Nodes that fail: too many of them, one that a replica replaces, one that comes back and does not
//! know yet, and one that hangs.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::event::Event;
use leasehold::lease::Renewal;
use leasehold::store::{Redis, Store};
use leasehold::{Client, Error, Guard, LockName, LossReason};
use leasehold_core::{Action, ClientId, HolderId, Keep, Operation, Reply};
use leasehold_testkit::harness::{connect, renew, until};
use leasehold_testkit::history::Violation;
use leasehold_testkit::{Cluster, Contenders, Data, RedisServer, fresh_number, must, options_of};
use tokio::time::timeout;

use super::{
    LONG, PATIENCE, TTL, assert_nothing_denied, client, loss, queued, request, soon, three_alone,
    url, with_least_rights,
};

/// How often a split is tried that both sides must see: about one in ten is not seen.
const SPLITS: usize = 8;

/// Long enough for a busy machine to renew the leases that can be renewed.
const HANGING_TTL: Duration = Duration::from_secs(5);

/// How many leases each node has; the renewals of one node's leases hang.
const LEASES: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_a_minority_refuses_in_words_and_leases_end_by_their_holders_clock() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 0));
    let (name, _) = cluster.fresh_name(0);
    let (other, _) = cluster.fresh_name(0);
    let client = client(&cluster).await;
    let guard = client.mutex(&name).ttl(TTL).acquire().await.unwrap();
    let token = guard.token();
    cluster.kill(1).unwrap();
    cluster.kill(2).unwrap();
    cluster.until_down().unwrap();
    let outcome = client.mutex(&other).try_acquire().await;
    let Err(Error::Store(error)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(!error.may_have_executed(), "{error}");
    assert!(error.to_string().contains("the cluster does not serve"), "{error}");
    assert_eq!(loss(&guard).await, LossReason::Expired);

    let waiting = tokio::spawn(async move { client.mutex(&name).ttl(TTL).acquire().await });
    for node in [1, 2] {
        cluster.restart(node, Data::Kept).unwrap();
    }
    cluster.until_up().unwrap();
    let next = soon(waiting).await.unwrap().expect("waiting rides out the outage");
    assert!(next.token() > token);
}

/// Waits until a node's replica has all writes that the node has now.
fn replicate(cluster: &Cluster, node: usize) {
    let mut connection = must(cluster.node(node).connection());
    // WAIT counts the replicas that have the last write of this connection.
    let (name, _) = cluster.fresh_name(node);
    must(redis::cmd("SET").arg(format!("lh:{{{name}}}:other")).arg(1).exec(&mut connection));
    let has_it: u32 = must(redis::cmd("WAIT").arg(1).arg(0).query(&mut connection));
    assert_eq!(has_it, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_a_replica_that_takes_over_keeps_the_lease_and_the_queue() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let (name, slot) = cluster.fresh_name(0);
    let holder = client(&cluster).await;
    let guard = holder.mutex(&name).ttl(LONG).acquire().await.unwrap();
    let token = guard.token();
    let waiter = client(&cluster).await;
    let waiting = tokio::spawn({
        let name = name.clone();
        async move { waiter.mutex(&name).ttl(LONG).acquire().await }
    });
    queued(&holder, &name, 1).await;
    replicate(&cluster, 0);
    cluster.kill(0).unwrap();
    assert_eq!(cluster.until_taken_over(slot, 0).unwrap(), 3);
    renew(&guard).await.expect("the new primary knows the lease");
    assert!(!waiting.is_finished() && guard.token() == token);
    guard.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    assert_nothing_denied(&cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_the_end_of_an_outage_is_told_although_another_node_has_taken_over() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let (name, slot) = cluster.fresh_name(0);
    let ended = Arc::new(AtomicBool::new(false));
    let observer = {
        let ended = Arc::clone(&ended);
        move |event: &Event<'_>| {
            if let Event::RoundTrip { away: Some(_), .. } = event {
                ended.store(true, Ordering::Relaxed);
            }
        }
    };
    let client = must(Client::builder().url(url(&cluster)).observer(observer).build().await);
    must(must(client.mutex(&name).acquire().await).release().await);
    must(cluster.kill(0));
    client.mutex(&name).try_acquire().await.expect_err("nobody serves it");
    must(cluster.until_taken_over(slot, 0));
    drop(must(soon(client.mutex(&name).ttl(TTL).acquire()).await));
    assert!(ended.load(Ordering::Relaxed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_a_primary_that_is_killed_again_and_again_costs_no_waiter() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let (name, slot) = cluster.fresh_name(0);
    let clients = [client(&cluster).await, client(&cluster).await, client(&cluster).await];
    let contenders = Contenders::start(&clients, &[name], TTL);
    let mut primary = 0;
    for _ in 0..2 {
        contenders.take_all().await;
        cluster.kill(primary).unwrap();
        let next = cluster.until_taken_over(slot, primary).unwrap();
        cluster.restart(primary, Data::Dropped).unwrap();
        cluster.until_replicated(next).unwrap();
        contenders.take_all().await;
        primary = next;
    }
    let violations = contenders.histories().await[0].violations_if_forgotten(PATIENCE);
    assert!(!violations.contains(&Violation::TokenTwice), "{violations:?}");
}

/// Stops a primary, lets the replica that takes over grant the lock, and continues the primary. A
/// request that was sent meanwhile is in the primary's socket. The primary grants it before it
/// hears of its successor, unless it was stopped just before a look at its clock: then there is
/// nothing to see. Returns the holders at the old primary and at the new one.
async fn split(cluster: &mut Cluster, primary: usize) -> Option<(Guard, Guard)> {
    let (name, slot) = cluster.fresh_name(primary);
    let patient = must(Client::connect(format!("{}?timeout=30s", url(cluster))).await);
    let other = client(cluster).await;
    // Both have connections to the primary.
    for client in [&patient, &other] {
        must(must(client.mutex(&name).acquire().await).release().await);
    }
    must(cluster.stop(primary));
    let asking = tokio::spawn({
        let lock = patient.mutex(&name).ttl(LONG).renewal(Renewal::Off);
        async move { must(lock.acquire_within(LONG).await) }
    });
    let next = must(cluster.until_taken_over(slot, primary));
    let winner = must(other.mutex(&name).ttl(LONG).acquire_within(LONG).await);
    must(cluster.cont(primary));
    must(cluster.until_replicated(next));
    if asking.is_finished() {
        return Some((must(asking.await), winner));
    }
    must(winner.release().await);
    drop(must(soon(asking).await));
    None
}

/// Exclusion breaks here, as it does wherever replication is not waited for. What is promised is
/// that the loser is told at its next renewal, and does not touch the winner's lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e6_when_both_sides_have_granted_the_loser_is_told_when_they_meet() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let mut primaries = [0, 3].into_iter().cycle().take(SPLITS);
    let (loser, winner) = loop {
        let primary = primaries.next().expect("one of many splits is seen by both sides");
        if let Some(both) = split(&mut cluster, primary).await {
            break both;
        }
    };
    assert!(loser.is_held() && winner.is_held(), "both believe in it");
    assert!(matches!(renew(&loser).await, Err(Error::Lost { .. })));
    assert!(matches!(loser.release().await, Err(Error::Lost { .. })));
    renew(&winner).await.unwrap();
    winner.release().await.unwrap();
}

/// Waits until the keeper has renewed a lease.
async fn renewed(guard: &Guard) {
    let left = Cell::new(guard.validity());
    let is_longer = async || guard.validity() > left.replace(guard.validity());
    until("the lease is renewed", is_longer).await;
}

/// The renewals go over connections that wait for replicas, and over no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hangs_costs_no_lease_that_waits_for_replicas_if_one_takes_over_later() {
    let options = RedisServer::options().line("cluster-replica-no-failover yes");
    let mut cluster = must(Cluster::start_with(&options, 2));
    let (name, slot) = cluster.fresh_name(0);
    let failures = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&failures);
    let observer = move |event: &Event<'_>| {
        if let Event::RoundTrip { operation: "keep", error: Some(_), .. } = event {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let url = format!("{}?replicas=1&timeout=1s", cluster.url());
    let client = must(Client::builder().url(url).observer(observer).build().await);
    let guard = must(soon(client.mutex(&name).ttl(LONG / 2).acquire()).await);
    renewed(&guard).await; // the keeper has connections to the primary
    must(cluster.stop(0));
    let before = failures.load(Ordering::Relaxed);
    until("two renewals have failed", async || failures.load(Ordering::Relaxed) > before + 1).await;
    must(cluster.node(3).command::<()>("CLUSTER FAILOVER TAKEOVER"));
    assert_eq!(must(cluster.until_taken_over(slot, 0)), 3);
    renewed(&guard).await;
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_all_replicas_one_that_is_away_counts_although_another_has_taken_over() {
    let mut cluster = must(Cluster::start(2));
    let (name, slot) = cluster.fresh_name(0);
    let client = connect(format!("{}?replicas=all&timeout=4s", cluster.url())).await;
    let lock = client.mutex(&name).ttl(LONG);
    must(must(soon(lock.acquire()).await).release().await);
    must(cluster.stop(6));
    must(cluster.node(3).command::<()>("CLUSTER FAILOVER"));
    assert_eq!(must(cluster.until_taken_over(slot, 0)), 3);
    must(cluster.until_replicated(3));
    let refused = async || match lock.try_acquire().await {
        Ok(Some(_)) => panic!("a replica does not have the grant"),
        Err(Error::Store(error)) => error.kind() == StoreErrorKind::NotReplicated,
        // A try that was slow is perhaps not taken back yet.
        Ok(None) | Err(_) => false,
    };
    until("a try says that too few replicas have the grant", refused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_costs_its_own_leases_and_no_others() {
    let mut cluster = three_alone();
    let client = client(&cluster).await;
    // Enough for leases of all nodes to be due for renewal together.
    let mut guards = [const { Vec::new() }; 3];
    for (node, guards) in guards.iter_mut().enumerate() {
        for _ in 0..LEASES {
            let (name, _) = cluster.fresh_name(node);
            guards.push(client.mutex(&name).ttl(HANGING_TTL).acquire().await.unwrap());
        }
    }
    cluster.stop(1).unwrap();
    let [first, hanging, third] = guards;
    for guard in &hanging {
        assert_eq!(loss(guard).await, LossReason::Expired);
    }
    for guard in first.iter().chain(&third) {
        assert!(guard.is_held(), "{:?}", guard.lost().await);
        guard.renew().await.unwrap();
    }
    cluster.cont(1).unwrap();
    let lock = client.mutex(hanging[0].name()).ttl(HANGING_TTL);
    assert!(soon(lock.acquire()).await.unwrap().token() > hanging[0].token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_connects_and_lists_waits_for_no_node_that_hangs() {
    let mut cluster = three_alone();
    // A listing passes the nodes by their addresses.
    let mut nodes = [0, 1, 2];
    nodes.sort_by_key(|node| cluster.node(*node).port());
    let (name, _) = cluster.fresh_name(nodes[0]);
    cluster.stop(nodes[2]).unwrap();
    // Opening a connection may take twice as long as this test.
    let url = format!("{}?timeout=60s", url(&cluster));
    let used = async {
        let client = must(Client::connect(url).await);
        let _guard = must(client.mutex(&name).acquire().await);
        must(client.admin().list(name.as_str(), 1).await)
    };
    let listed = timeout(Duration::from_secs(30), used).await.expect("a node holds it up");
    assert_eq!(listed, [name]);
}

/// While a slot moves, a lease in it may already be at the other node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_costs_a_lease_that_has_moved_there_its_renewal_and_no_other_lease() {
    let mut cluster = three_alone();
    let store = must(Redis::open(options_of(&url(&cluster))).await);
    let (moved, slot) = cluster.fresh_name(0);
    let (stays, _) = cluster.fresh_name(0);
    must(cluster.begin_move(slot, 1));
    let id = HolderId { client: ClientId(fresh_number()), attempt: 1 };
    for name in [&moved, &stays] {
        let operation = Operation::On { name: name.clone(), action: Action::Take(request(id)) };
        assert!(matches!(must(store.execute(operation).await).reply, Reply::Granted(_)));
    }
    must(cluster.kill(1));
    let renew = async |names: &[&LockName]| {
        let lease = |name: &&LockName| ((*name).clone(), Keep::new(request(id).request, LONG));
        let renewals = Operation::Keep(names.iter().map(lease).collect());
        store.execute(renewals).await.map(|answer| answer.reply)
    };
    let Reply::Many(replies) = must(renew(&[&moved, &stays]).await) else { panic!("not many") };
    assert!(matches!(replies[..], [Reply::Busy { .. }, Reply::Kept { .. }]), "{replies:?}");
    let error = renew(&[&moved]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
}
