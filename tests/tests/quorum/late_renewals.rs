//! A renewal of a reader that is answered once the reader is the writer.

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
use leasehold_testkit::must;
use tokio::sync::watch;

use crate::fleet::{memory_nodes, name, subject};

const TTL: Duration = Duration::from_secs(30);

/// How long the quorum waits for an answer: half a lease.
const PATIENCE: Duration = Duration::from_secs(15);

const OURS: HolderId = HolderId { client: ClientId(1), attempt: 1 };

/// A node that may be cut off, and whose answers to renewals may be held back.
#[derive(Clone, Debug)]
struct Node {
    memory: Memory,
    is_cut: Arc<AtomicBool>,
    answers: Arc<watch::Sender<bool>>,
}

impl Node {
    fn new(memory: Memory) -> Self {
        Self { memory, is_cut: Arc::default(), answers: Arc::new(watch::Sender::new(true)) }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    async fn pass(&self, operation: Operation) -> Result<Answer, StoreError> {
        // A request that comes while the node is cut off gets no answer later either.
        if self.is_cut.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let is_renewal = matches!(operation, Operation::Renew(_));
        let answer = self.memory.execute(operation).await;
        if is_renewal {
            must(self.answers.subscribe().wait_for(|answers| *answers).await);
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

/// The last node is given the lease back late. There it would last longer than on the other nodes,
/// and others may read beside it.
#[tokio::test]
async fn a_writer_does_not_count_a_node_that_was_given_back_its_readers_lease() {
    let clock = FakeClock::new();
    let subject = subject(&clock);
    let memories = memory_nodes(3, &clock);
    let quorum_of = |stores: Vec<Box<dyn Store>>| must(Quorum::with_clock(stores, clock.clone()));
    let others = quorum_of(memories.iter().map(|memory| memory.clone().into()).collect());
    let others = must(Client::builder().store(others).clock(clock.clone()).build().await);
    let nodes: Vec<_> = memories.into_iter().map(Node::new).collect();
    let ours = quorum_of(nodes.iter().map(|node| node.clone().into()).collect());
    let ours = ours.timeout(PATIENCE);
    let ask = async |operation| end(subject.drive(ours.execute(operation)).await);

    // The last node does not know the lease, and its answer to the renewal comes late.
    nodes[2].cut(true);
    let read = Acquire::new(OURS, Mode::Shared, TTL).with_not_after((1 << 53) - 1);
    assert!(ask(on(Action::Acquire(read))).await.is_some());
    nodes[2].cut(false);
    nodes[2].answers.send_replace(false);
    nodes[1].cut(true);
    let mut late = ours.execute(renewal(Mode::Shared, 0));
    assert!(poll!(&mut late).is_pending());
    nodes[1].cut(false);
    let write = Action::ChangeMode { id: OURS, mode: Mode::Exclusive, change: 1 };
    let upgraded = ask(on(write)).await;
    assert!(upgraded.is_some());
    subject.pass(PATIENCE - Duration::from_secs(1)).await;
    nodes[2].answers.send_replace(true);
    let renewed = end(subject.drive(late).await);

    nodes[1].cut(true);
    nodes[2].cut(true);
    let renewed_again = ask(renewal(Mode::Exclusive, 1)).await;
    let end = upgraded.max(renewed).max(renewed_again);
    let lock = others.rwlock("a").read();
    while must(subject.drive(lock.try_acquire()).await).is_none() {
        subject.pass(TTL / 10).await;
    }
    assert!(end.is_some_and(|end| end <= clock.now()), "they read beside the writer");
}
