//! An attempt that its client ends while it is acquired, and one that some node has yet to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use leasehold::admin::{ClientId, HolderId};
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::{Memory, Quorum, Store};
use leasehold::time::FakeClock;
use leasehold_core::{Action, Answer, BoxFuture, End, Operation, Reply};
use leasehold_testkit::harness::request;
use leasehold_testkit::{Subject, must};
use tokio::sync::watch;

use crate::fleet::{memory_nodes, name, subject};

/// Longer than a quorum waits for any answer, and much shorter than a lease.
const LONG: Duration = Duration::from_secs(10);

/// Our attempt, and another client's.
const OURS: HolderId = HolderId { client: ClientId(1), attempt: 1 };
const THEIRS: HolderId = HolderId { client: ClientId(2), attempt: 1 };

/// The requests of which a node holds back the answers, after it has carried them out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Held {
    Ends,
    #[default]
    Nothing,
    Takes,
}

/// A node that counts the ends that it gets, and that may be silent.
#[derive(Clone, Debug)]
struct Node {
    memory: Memory,
    /// Whether requests are carried out.
    answers: Arc<AtomicBool>,
    held: Arc<watch::Sender<Held>>,
    ends: Arc<AtomicUsize>,
    /// The node lacks a right: it grants without an answer, and ends nothing.
    is_poor: Arc<AtomicBool>,
}

impl Node {
    fn new(memory: Memory) -> Self {
        let (held, ends, is_poor) = Default::default();
        Self { memory, answers: Arc::new(AtomicBool::new(true)), held, ends, is_poor }
    }

    async fn pass(&self, operation: Operation) -> Result<Answer, StoreError> {
        let is_end = matches!(&operation, Operation::On { action: Action::End(_), .. });
        self.ends.fetch_add(is_end.into(), Ordering::Relaxed);
        // A request that comes while nothing is answered gets no answer later either.
        if !self.answers.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.is_poor.load(Ordering::Relaxed) {
            let denied = StoreError::new(StoreErrorKind::Denied, "a right is missing");
            if is_end {
                return Err(denied);
            }
            return self.memory.execute(operation).await.and(Err(denied.maybe_executed()));
        }
        let answer = self.memory.execute(operation).await;
        let kind = if is_end { Held::Ends } else { Held::Takes };
        let _ = self.held.subscribe().wait_for(|held| *held != kind).await;
        answer
    }

    fn holders(&self) -> Vec<ClientId> {
        self.memory.record(&name("a")).unwrap_or_default().holders()
    }
}

impl Store for Node {
    leasehold_testkit::passes_on!(memory: capabilities, inbox);

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.pass(operation))
    }
}

/// A quorum without a client.
struct World {
    subject: Subject,
    nodes: Vec<Node>,
    quorum: Quorum,
}

impl World {
    async fn new(count: usize) -> Self {
        let clock = FakeClock::new();
        let subject = subject(&clock);
        let nodes: Vec<_> = memory_nodes(count, &clock).into_iter().map(Node::new).collect();
        let stores = nodes.iter().map(|node| Box::new(node.clone()) as Box<dyn Store>);
        let quorum = must(Quorum::with_clock(stores.collect(), clock));
        let world = Self { subject, nodes, quorum };
        // From now on, the quorum has a sample of each node's clock.
        world.ask(&world.quorum, Action::Look { limit: 1 }).await;
        world.subject.pass(LONG).await;
        world
    }

    async fn ask(&self, store: &impl Store, action: Action) -> Reply {
        must(self.subject.drive(store.execute(on(action))).await).reply
    }

    fn answers(&self, indexes: &[usize], answers: bool) {
        let each = indexes.iter().map(|index| &self.nodes[*index].answers);
        each.for_each(|it| it.store(answers, Ordering::Relaxed));
    }

    fn hold_back(&self, indexes: &[usize], held: Held) {
        indexes.iter().for_each(|index| _ = self.nodes[*index].held.send_replace(held));
    }

    /// Another client acquires or releases at some nodes.
    async fn they(&self, indexes: std::ops::Range<usize>, action: Action) {
        for node in &self.nodes[indexes] {
            self.ask(&node.memory, action.clone()).await;
        }
    }

    fn ends(&self) -> usize {
        self.nodes.iter().map(|node| node.ends.load(Ordering::Relaxed)).sum()
    }

    fn holders(&self) -> Vec<Vec<ClientId>> {
        self.nodes.iter().map(Node::holders).collect()
    }
}

fn on(action: Action) -> Operation {
    Operation::On { name: name("a"), action }
}

fn take(id: HolderId) -> Action {
    Action::Take(request(id))
}

fn end(id: HolderId) -> Action {
    Action::End(End::new(request(id).request))
}

#[tokio::test]
async fn an_attempt_that_its_client_ends_is_not_won_by_the_grants_that_come_later() {
    let world = World::new(3).await;
    world.hold_back(&[1, 2], Held::Takes);
    let mut first = world.quorum.execute(on(take(OURS)));
    assert!(poll!(&mut first).is_pending(), "one node has answered");
    assert_eq!(world.ask(&world.quorum, end(OURS)).await, Reply::Ended(true));
    world.hold_back(&[1, 2], Held::Nothing);
    assert_eq!(must(world.subject.drive(first).await).reply, Reply::Closed);
    assert_eq!(world.holders(), [[]; 3]);
}

#[tokio::test]
async fn an_attempt_that_its_client_ends_while_its_call_lets_go_of_a_minority_is_not_sent_again() {
    let world = World::new(3).await;
    world.they(1..3, take(THEIRS)).await;
    world.hold_back(&[0], Held::Ends);
    let mut first = world.quorum.execute(on(take(OURS)));
    while world.ends() == 0 {
        assert!(poll!(&mut first).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(world.ask(&world.quorum, end(OURS)).await, Reply::Ended(false));
    world.they(1..3, end(THEIRS)).await;
    world.hold_back(&[0], Held::Nothing);
    let reply = must(world.subject.drive(first).await).reply;
    assert!(matches!(reply, Reply::Busy { .. }), "{reply:?}");
    assert_eq!(world.holders(), [[]; 3]);
}

#[tokio::test]
async fn an_attempt_that_a_silent_node_has_yet_to_end_is_not_won_and_the_next_ends_everywhere() {
    let world = World::new(5).await;
    world.they(2..5, take(THEIRS)).await;
    world.answers(&[1], false);
    let mut split = world.quorum.execute(on(take(OURS)));
    assert!(poll!(&mut split).is_pending(), "one node has not answered");
    world.they(2..5, end(THEIRS)).await;
    let mut reply = must(world.subject.drive(split).await).reply;
    let mut id = OURS;
    while let Reply::Busy { .. } = reply {
        id.attempt += 1;
        reply = world.ask(&world.quorum, take(id)).await;
    }
    assert!(matches!(reply, Reply::Granted(_)), "{reply:?}");
    world.answers(&[1], true);
    assert_eq!(world.ask(&world.quorum, end(id)).await, Reply::Ended(true));
    world.subject.pass(LONG).await;
    assert_eq!(world.holders(), [[]; 5]);
}

#[tokio::test]
async fn what_a_majority_has_ended_is_ended_again_without_a_wait_for_a_node_that_is_silent() {
    let world = World::new(3).await;
    world.ask(&world.quorum, take(OURS)).await;
    world.answers(&[2], false);
    assert_eq!(world.ask(&world.quorum, end(OURS)).await, Reply::Ended(true));
    let mut again = world.quorum.execute(on(end(OURS)));
    let Poll::Ready(again) = poll!(&mut again) else { panic!("it waits") };
    assert_eq!(must(again).reply, Reply::Ended(true));
}

#[tokio::test]
async fn an_attempt_that_nodes_may_not_end_is_ended_once_their_right_is_back() {
    let world = World::new(3).await;
    let poor = |is_poor| {
        world.nodes.iter().for_each(|node| node.is_poor.store(is_poor, Ordering::Relaxed));
    };
    poor(true);
    let refused = world.subject.drive(world.quorum.execute(on(take(OURS)))).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Denied);
    assert!(refused.may_have_executed(), "the caller has to cancel it");
    assert_eq!(world.holders()[..2], [[OURS.client]; 2]);
    let refused = world.subject.drive(world.quorum.execute(on(end(OURS)))).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Denied);
    poor(false);
    world.subject.pass(LONG).await;
    assert_eq!(world.holders(), [[]; 3]);
}
