//! Renewals of a reader that is about to become the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::poll;
use leasehold::Client;
use leasehold::admin::{ClientId, HolderId};
use leasehold::error::StoreError;
use leasehold::lease::Mode;
use leasehold::store::{Capabilities, Inbox, Memory, Quorum, Store};
use leasehold::time::{Clock, FakeClock, Instant};
use leasehold_core::{Acquire, Action, Answer, BoxFuture, Operation, RenewLease, Reply};
use leasehold_testkit::{Subject, must};
use tokio::sync::watch;

use crate::fleet::{memory_nodes, name, subject};

const TTL: Duration = Duration::from_secs(30);

/// How long the quorum waits for an answer: half a lease.
const PATIENCE: Duration = Duration::from_secs(15);

const OURS: HolderId = HolderId { client: ClientId(1), attempt: 1 };

/// A node that may be cut off, and whose answers to renewals or commits may be held back.
#[derive(Clone, Debug)]
struct Node {
    memory: Memory,
    is_cut: Arc<AtomicBool>,
    renewals: Arc<watch::Sender<bool>>,
    commits: Arc<watch::Sender<bool>>,
}

impl Node {
    fn new(memory: Memory) -> Self {
        let [renewals, commits] = [(); 2].map(|()| Arc::new(watch::Sender::new(true)));
        Self { memory, is_cut: Arc::default(), renewals, commits }
    }

    async fn pass(&self, operation: Operation) -> Result<Answer, StoreError> {
        // A request that comes while the node is cut off gets no answer later either.
        if self.is_cut.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let answers = match &operation {
            Operation::Renew(_) => Some(&self.renewals),
            Operation::On { action: Action::Commit { .. }, .. } => Some(&self.commits),
            _ => None,
        };
        let answer = self.memory.execute(operation).await;
        if let Some(answers) = answers {
            must(answers.subscribe().wait_for(|answers| *answers).await);
        }
        answer
    }
}

impl Store for Node {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.pass(operation))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.memory.inbox(client)
    }
}

fn on(action: Action) -> Operation {
    Operation::On { name: name("a"), action }
}

fn renewal(mode: Mode, change: u64) -> Operation {
    Operation::Renew(vec![RenewLease::new(name("a"), OURS, TTL, mode).with_change(change)])
}

/// The end of the lease by an answer to its holder, if the answer says one.
fn end(answer: Result<Answer, StoreError>) -> Option<Instant> {
    let grant = match answer.ok()?.reply {
        Reply::Granted(grant) => grant,
        Reply::Many(replies) => match replies.first()? {
            Reply::Granted(grant) => *grant,
            _ => return None,
        },
        _ => return None,
    };
    Some(Instant::from_origin(Duration::from_micros(grant.deadline_us)))
}

/// Three nodes, a quorum of them, and a client that is never cut off from them.
struct World {
    clock: FakeClock,
    subject: Subject,
    nodes: Vec<Node>,
    quorum: Quorum,
    others: Client,
}

impl World {
    async fn new() -> Self {
        let clock = FakeClock::new();
        let subject = subject(&clock);
        let memories = memory_nodes(3, &clock);
        let quorum_of = |stores| must(Quorum::with_clock(stores, clock.clone()));
        let others = quorum_of(memories.iter().map(|memory| memory.clone().into()).collect());
        let others = must(Client::builder().store(others).clock(clock.clone()).build().await);
        let nodes: Vec<_> = memories.into_iter().map(Node::new).collect();
        let quorum = quorum_of(nodes.iter().map(|node| node.clone().into()).collect());
        let quorum = quorum.timeout(PATIENCE);
        Self { clock, subject, nodes, quorum, others }
    }

    /// The end of the lease by the answer to a request of its holder, if the answer says one.
    async fn ask(&self, operation: Operation) -> Option<Instant> {
        end(self.subject.drive(self.quorum.execute(operation)).await)
    }

    /// Cuts the quorum off from these nodes, and from no others.
    fn cut(&self, indexes: &[usize]) {
        for (index, node) in self.nodes.iter().enumerate() {
            node.is_cut.store(indexes.contains(&index), Ordering::Relaxed);
        }
    }

    fn answer_commits(&self, answers: bool) {
        for node in &self.nodes {
            node.commits.send_replace(answers);
        }
    }

    /// Waits until others can read, and returns the time.
    async fn others_read(&self) -> Instant {
        let lock = self.others.rwlock("a").read();
        while must(self.subject.drive(lock.try_acquire()).await).is_none() {
            self.subject.pass(TTL / 10).await;
        }
        self.clock.now()
    }
}

fn read() -> Operation {
    on(Action::Acquire(Acquire::new(OURS, Mode::Shared, TTL).with_not_after((1 << 53) - 1)))
}

fn write() -> Operation {
    on(Action::ChangeMode { id: OURS, mode: Mode::Exclusive, change: 1 })
}

/// The last node does not know the lease, and its answer to a renewal comes late. It is given the
/// lease back. There it would last longer than on the other nodes, and others may read beside it.
#[tokio::test]
async fn a_writer_does_not_count_a_node_that_was_given_back_its_readers_lease() {
    let world = World::new().await;
    world.cut(&[2]);
    assert!(world.ask(read()).await.is_some());
    world.cut(&[1]);
    world.nodes[2].renewals.send_replace(false);
    let mut late = world.quorum.execute(renewal(Mode::Shared, 0));
    assert!(poll!(&mut late).is_pending());
    world.cut(&[]);
    let upgraded = world.ask(write()).await;
    assert!(upgraded.is_some());
    world.subject.pass(PATIENCE - Duration::from_secs(1)).await;
    world.nodes[2].renewals.send_replace(true);
    let renewed = end(world.subject.drive(late).await);
    world.cut(&[1, 2]);
    let renewed_again = world.ask(renewal(Mode::Exclusive, 1)).await;
    let end = upgraded.max(renewed).max(renewed_again);
    assert!(Some(world.others_read().await) >= end, "they read beside the writer");
}

/// A renewal reaches other nodes than the upgrade, and the answers to the upgrade come later.
#[tokio::test]
async fn a_writer_has_its_nodes_for_as_long_as_it_was_told_while_it_was_a_reader() {
    let world = World::new().await;
    assert!(world.ask(read()).await.is_some());
    assert!(world.ask(renewal(Mode::Shared, 0)).await.is_some());
    world.cut(&[2]);
    world.answer_commits(false);
    let mut upgrade = world.quorum.execute(write());
    assert!(poll!(&mut upgrade).is_pending());
    world.subject.pass(PATIENCE / 3).await;
    world.cut(&[0]);
    let renewed = world.ask(renewal(Mode::Shared, 0)).await;
    assert!(renewed.is_some());
    world.cut(&[]);
    world.answer_commits(true);
    let upgraded = end(world.subject.drive(upgrade).await);
    assert!(upgraded.is_some());
    let end = renewed.max(upgraded);
    assert!(Some(world.others_read().await) >= end, "they read beside the writer");
}
