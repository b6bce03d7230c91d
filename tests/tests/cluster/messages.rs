//! Messages: they are published at one node and heard at another, whatever becomes of either. With
//! plain publish no subscription depends on a slot, which is what E7 of the catalogue is about.

use std::time::Duration;

use leasehold::LockName;
use leasehold::store::{Inbox, Redis, Store};
use leasehold_core::{Acquire, Action, ClientId, Facts, HolderId, Message, Mode, Operation, Reply};
use leasehold_testkit::{Cluster, fresh_number, must};

use super::{LONG, end_of, three_alone, url, with_least_rights};

/// A client that waits: its inbox, and the store by which it asks.
struct Listener {
    store: Redis,
    client: ClientId,
    inbox: Box<dyn Inbox>,
}

impl Listener {
    async fn start(cluster: &Cluster) -> Self {
        let store = must(Redis::connect(&url(cluster)).await);
        let client = ClientId(fresh_number());
        let inbox = must(store.inbox(client).await);
        Self { store, client, inbox }
    }

    /// The node at which it listens.
    fn node(&self, cluster: &Cluster) -> usize {
        let hears = format!("PUBSUB NUMSUB lh:inbox:{}", self.client);
        let listens = |node: &usize| {
            let (_, count): (String, u32) = must(cluster.node(*node).command(&hears));
            count > 0
        };
        (0..cluster.size()).find(listens).expect("it listens somewhere")
    }

    async fn on(&self, name: &LockName, action: Action) -> Reply {
        let operation = Operation::On { name: name.clone(), action };
        must(self.store.execute(operation).await).reply
    }

    async fn acquire(&self, name: &LockName, id: HolderId) -> Reply {
        let request = Acquire {
            id,
            mode: Mode::Exclusive,
            ttl: LONG,
            wait: true,
            nonce: 7,
            not_after_us: 9_000_000_000_000_000,
            ballot_us: None,
            facts: Facts { host: "h".into(), pid: 1, label: None },
        };
        self.on(name, Action::Acquire(request)).await
    }

    /// Has somebody else hold the name and joins the queue, does something, has the name released,
    /// and expects to hear of it.
    async fn expect_hand_over(&mut self, name: &LockName, meanwhile: impl FnOnce()) {
        let holder = HolderId { client: ClientId(fresh_number()), attempt: 1 };
        let own = HolderId { client: self.client, attempt: 1 };
        assert!(matches!(self.acquire(name, holder).await, Reply::Granted(_)));
        assert!(matches!(self.acquire(name, own).await, Reply::Queued(_)));
        meanwhile();
        let release = Action::Release { id: holder, keep: Duration::ZERO, unanswered: false };
        assert_eq!(self.on(name, release).await, Reply::Released);
        let heard = end_of(self.inbox.next()).await;
        assert!(matches!(heard, Message::Granted { attempt: 1, nonce: 7, .. }), "{heard:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_grant_is_heard_from_every_node_and_after_the_slot_has_moved() {
    let cluster = three_alone();
    let mut listener = Listener::start(&cluster).await;
    for node in 0..3 {
        listener.expect_hand_over(&cluster.fresh_name(node).0, || {}).await;
        let (name, slot) = cluster.fresh_name(node);
        listener.expect_hand_over(&name, || cluster.move_slot(slot, (node + 1) % 3).unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_when_the_node_it_listens_at_is_killed_a_client_is_told_and_listens_elsewhere() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let mut listener = Listener::start(&cluster).await;
    let killed = listener.node(&cluster);
    let (name, _) = cluster.fresh_name((0..3).find(|node| *node != killed).unwrap());
    cluster.kill(killed).unwrap();
    assert_eq!(end_of(listener.inbox.next()).await, Message::Gap);
    cluster.until_up().unwrap();
    listener.expect_hand_over(&name, || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_node_that_was_taken_out_of_the_cluster_is_not_listened_at_any_more() {
    let cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let (mut listener, node) = loop {
        let listener = Listener::start(&cluster).await;
        let node = listener.node(&cluster);
        if node >= 3 {
            break (listener, node);
        }
    };
    cluster.remove_replica(node).unwrap();
    assert_eq!(end_of(listener.inbox.next()).await, Message::Gap);
    listener.expect_hand_over(&cluster.fresh_name(0).0, || {}).await;
}
