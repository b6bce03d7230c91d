//! Messages: they are heard at every primary, whatever becomes of one. With plain publish no
//! subscription depends on a slot, which is what E7 is about.

use leasehold::LockName;
use leasehold::store::{Inbox, Redis, Store};
use leasehold_core::{Action, ClientId, End, HolderId, Message, Operation, Reply};
use leasehold_testkit::{Cluster, fresh_number, must, options_of};

use super::{LONG, request, soon, three_alone, url, with_least_rights};

/// A client that waits: its inbox, and the store by which it asks.
struct Listener {
    store: Redis,
    client: ClientId,
    inbox: Box<dyn Inbox>,
}

impl Listener {
    async fn start(cluster: &Cluster) -> Self {
        let store = must(Redis::open(options_of(&url(cluster))).await);
        let client = ClientId(fresh_number());
        let inbox = must(store.inbox(client).await);
        Self { store, client, inbox }
    }

    async fn on(&self, name: &LockName, action: Action) -> Reply {
        let operation = Operation::On { name: name.clone(), action };
        must(self.store.execute(operation).await).reply
    }

    async fn acquire(&self, name: &LockName, id: HolderId) -> Reply {
        let request = request(id).with_ttl(LONG).with_waits(true);
        self.on(name, Action::Take(request)).await
    }

    /// Lets another client hold the name and joins the queue. Then runs `meanwhile`, has the name
    /// released, and expects the message.
    async fn expect_hand_over(&mut self, name: &LockName, meanwhile: impl FnOnce()) {
        let holder = HolderId { client: ClientId(fresh_number()), attempt: 1 };
        let own = HolderId { client: self.client, attempt: 1 };
        assert!(matches!(self.acquire(name, holder).await, Reply::Granted(_)));
        assert!(matches!(self.acquire(name, own).await, Reply::Queued(_)));
        meanwhile();
        let release = Action::End(End::new(request(holder).request));
        assert_eq!(self.on(name, release).await, Reply::Ended(true));
        let heard = soon(self.inbox.next()).await;
        assert!(matches!(heard, Message::Granted { attempt: 1, .. }), "{heard:?}");
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
async fn e7_a_client_listens_at_every_primary_also_at_one_that_has_taken_over() {
    let mut cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let mut listener = Listener::start(&cluster).await;
    let channel = format!("lh:inbox:{}", listener.client);
    assert_eq!(hearers(&cluster, &channel), [0, 1, 2]);
    let (_, slot) = cluster.fresh_name(0);
    cluster.kill(0).unwrap();
    assert_eq!(cluster.until_taken_over(slot, 0).unwrap(), 3);
    assert_eq!(soon(listener.inbox.next()).await, Message::Gap);
    assert_eq!(hearers(&cluster, &channel), [1, 2, 3]);
    listener.expect_hand_over(&cluster.fresh_name(3).0, || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_node_that_was_taken_out_of_the_cluster_is_not_listened_at_any_more() {
    let cluster = must(Cluster::start_with(&with_least_rights(), 1));
    let store = must(Redis::open(options_of(&url(&cluster))).await);
    let (name, _) = cluster.fresh_name(0);
    let channel = format!("lh:inbox:0@{name}");
    // The client listens for messages at one node after the other.
    let mut news = loop {
        let news = must(store.subscribe(&name).await).expect("a cluster carries news");
        match hearers(&cluster, &channel)[..] {
            [node] if node >= 3 => {
                cluster.remove_replica(node).unwrap();
                break news;
            }
            _ => drop(news),
        }
        soon(async {
            while !hearers(&cluster, &channel).is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    assert_eq!(soon(news.next()).await, None);
    store.publish(&name, "hello").await.unwrap();
    assert_eq!(soon(news.next()).await.as_deref(), Some("hello"));
}

/// The channels of Redisson's messages are in the slot of the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_who_listens_to_a_slot_that_has_moved_follows_it_whatever_the_own_map_says() {
    let cluster = must(Cluster::start(0));
    let url = format!("{}?layout=redisson", cluster.url());
    let open = async || must(Redis::open(options_of(&url)).await);
    let (name, slot) = (must(LockName::new("a")), must(cluster.slot_of("a")));
    let to = (must(cluster.owner(slot)) + 1) % 3;
    let (before, after) = (open().await, open().await);
    let mut heard_before = must(before.subscribe(&name).await).expect("there are messages");
    must(cluster.move_slot(slot, to));
    // Neither store has asked for anything in this slot since.
    let mut heard_after = must(after.subscribe(&name).await).expect("there are messages");
    assert_eq!(soon(heard_before.next()).await, None);
    must(cluster.node(to).command::<()>(&format!("SPUBLISH redisson_rwlock:{{{name}}} 1")));
    for heard in [&mut heard_before, &mut heard_after] {
        assert_eq!(soon(heard.next()).await.as_deref(), Some("1"));
    }
}

/// The answering nodes at which somebody listens to a channel.
fn hearers(cluster: &Cluster, channel: &str) -> Vec<usize> {
    let asked = format!("PUBSUB NUMSUB {channel}");
    let hears = |node: &usize| {
        let (_, count): (String, u32) = must(cluster.node(*node).command(&asked));
        count > 0
    };
    (0..cluster.size()).filter(|node| cluster.answers(*node)).filter(hears).collect()
}
