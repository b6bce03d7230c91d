//! H2: the cost of many waiters while there is no majority, and how soon they are served after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::Client;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::Store;
use leasehold::time::{Clock, FakeClock};
use leasehold_core::{Answer, BoxFuture, Operation};
use leasehold_testkit::{SharedStore, Subject, must};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::fleet::{client_of, memory_nodes, subject};

const WAITERS: usize = 100;
const OUTAGE: Duration = Duration::from_secs(60);

/// How soon everybody is served once a majority is back.
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// Most connections that one client opens to one node in a second.
const MOST_A_SECOND: usize = 4;

/// What happens to requests to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Open,
    /// There is no connection.
    Refused,
    /// No answer ever comes back.
    Swallowed,
}

/// One client's connection to a node, which counts its requests.
#[derive(Clone, Debug)]
struct Way {
    node: SharedStore,
    line: Arc<watch::Sender<Line>>,
    asked: Arc<AtomicUsize>,
}

impl Way {
    fn new(node: SharedStore) -> Self {
        Self { node, line: Arc::new(watch::Sender::new(Line::Open)), asked: Arc::default() }
    }

    fn set(&self, line: Line) {
        self.line.send_replace(line);
        self.asked.store(0, Ordering::Relaxed);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Counts the request; an error if no answer can come.
    async fn pass(&self) -> Result<(), StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let line = *self.line.borrow();
        match line {
            Line::Open => Ok(()),
            Line::Refused => {
                Err(StoreError::new(StoreErrorKind::Unreachable, "nothing listens there"))
            }
            Line::Swallowed => std::future::pending().await,
        }
    }
}

impl Store for Way {
    leasehold_testkit::passes_on!(node: capabilities, inbox, publish, subscribe);

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async {
            self.pass().await?;
            self.node.execute(operation).await
        })
    }
}

/// Two clients, as of two processes, of the same three nodes.
struct Crowd {
    subject: Subject,
    clock: FakeClock,
    ways: [Vec<Way>; 2],
    clients: Vec<Client>,
}

impl Crowd {
    async fn new() -> Self {
        let clock = FakeClock::new();
        let subject = subject(&clock);
        let nodes: Vec<_> = memory_nodes(3, &clock).into_iter().map(SharedStore::new).collect();
        let ways = [(); 2].map(|()| nodes.iter().cloned().map(Way::new).collect::<Vec<_>>());
        let mut clients = Vec::new();
        for ways in &ways {
            let stores = ways.iter().cloned().map(|way| Box::new(way) as Box<dyn Store>);
            clients.push(client_of(stores.collect(), &clock).await);
        }
        let crowd = Self { subject, clock, ways, clients };
        for client in &crowd.clients {
            let warm = must(crowd.subject.drive(client.mutex("warm").acquire()).await);
            must(crowd.subject.drive(warm.release()).await);
        }
        crowd
    }

    fn set(&self, line: Line) {
        self.ways.iter().for_each(|ways| ways[..2].iter().for_each(|way| way.set(line)));
    }

    /// Waits for a majority with many waiters, each for a different name. Returns how long it took
    /// to serve them once the majority was back.
    async fn ride_out(&self, line: Line) -> Duration {
        self.set(line);
        self.ways.iter().for_each(|ways| ways[2].set(Line::Open));
        let waiting = self.wait();
        self.subject.pass(OUTAGE).await;
        self.check(line);
        self.set(Line::Open);
        let back = self.clock.now();
        self.subject.drive(join_all(waiting)).await.into_iter().for_each(must);
        self.clock.now().saturating_since(back)
    }

    /// Many callers of each client wait, each for a different name.
    fn wait(&self) -> Vec<JoinHandle<()>> {
        let waiting = self.clients.iter().enumerate().flat_map(|(number, client)| {
            (0..WAITERS).map(move |waiter| {
                let lock = client.mutex(format!("{number}/{waiter}"));
                tokio::spawn(async move { must(must(lock.acquire().await).release().await) })
            })
        });
        waiting.collect()
    }

    /// Checks that no node got many requests. At first all callers ask for themselves: only after a
    /// silent second does the client know that the nodes are away.
    fn check(&self, line: Line) {
        let at_first = match line {
            Line::Open | Line::Refused => WAITERS,
            Line::Swallowed => 30 * WAITERS,
        };
        let most = at_first + OUTAGE.as_secs() as usize * MOST_A_SECOND;
        for ways in &self.ways {
            let asked: Vec<_> = ways.iter().map(Way::asked).collect();
            assert!(asked[..2].iter().all(|asked| *asked <= most), "{line:?}: {asked:?}");
            // The grants of a minority are released.
            assert!(asked[2] <= 2 * at_first, "{line:?}: {asked:?}");
        }
    }
}

#[tokio::test]
async fn h2_a_hundred_waiters_ask_little_in_an_outage_and_are_served_soon_after_it() {
    for line in [Line::Refused, Line::Swallowed] {
        let took = Crowd::new().await.ride_out(line).await;
        assert!(took <= SERVED_WITHIN, "{line:?}: all were served after {took:?}");
    }
}

/// The waiters of a client do not delay the renewals of its lease.
#[tokio::test]
async fn h2_a_lease_outlives_an_outage_that_is_shorter_than_it_is() {
    for line in [Line::Refused, Line::Swallowed] {
        let crowd = Crowd::new().await;
        let lock = crowd.clients[0].mutex("held").ttl(Duration::from_secs(10));
        let guard = must(crowd.subject.drive(lock.acquire()).await);
        crowd.set(line);
        let waiting = crowd.wait();
        crowd.subject.pass(Duration::from_secs(5)).await;
        crowd.set(Line::Open);
        crowd.subject.drive(join_all(waiting)).await.into_iter().for_each(must);
        crowd.subject.pass(Duration::from_secs(30)).await;
        must(guard.ensure_held());
        must(crowd.subject.drive(guard.release()).await);
    }
}

/// A guard that is dropped in an outage is released at each node once, as soon as the node is back.
#[tokio::test]
async fn h2_what_is_to_be_ended_in_an_outage_is_asked_for_once_at_each_node() {
    for line in [Line::Refused, Line::Swallowed] {
        let crowd = Crowd::new().await;
        let guard = must(crowd.subject.drive(crowd.clients[0].mutex("held").acquire()).await);
        // All nodes have the lease, and nothing is under way.
        must(crowd.subject.drive(guard.renew()).await);
        crowd.set(line);
        crowd.ways[0][2].set(Line::Open);
        drop(guard);
        crowd.subject.pass(Duration::from_secs(20)).await;
        let asked: Vec<_> = crowd.ways[0].iter().map(Way::asked).collect();
        assert_eq!(asked[2], 1, "{line:?}: the node that is there was asked so often");
        let most = 20 * MOST_A_SECOND;
        assert!(asked[..2].iter().all(|asked| *asked <= most), "{line:?}: {asked:?}");
        crowd.set(Line::Open);
        let next = crowd.clients[1].mutex("held");
        let next = must(crowd.subject.drive_within(SERVED_WITHIN, next.acquire()).await);
        must(crowd.subject.drive(next.release()).await);
    }
}
