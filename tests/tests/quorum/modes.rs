//! Changes of mode that reach only some nodes. A writer on a majority is alone, and the other nodes
//! come to agree with it.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::lease::{Mode, Renewal};
use leasehold::store::{Memory, Quorum, Store};
use leasehold::time::FakeClock;
use leasehold::{Client, Guard, Lock, LockName, LossReason};
use leasehold_core::{Action, Operation, Reply};
use leasehold_testkit::{Faults, Faulty, SharedStore, Subject, must};

use crate::fleet::{memory_nodes, name, subject};

const TTL: Duration = Duration::from_secs(30);

/// Longer than anything here takes.
const OUTAGE: Duration = Duration::from_secs(3600);

/// How far a clock is ahead for a while: 3 s, which nodes still believe.
const STEP_US: i64 = 3_000_000;

/// Some nodes, a client that is sometimes cut off from some of them, and one that is not.
struct Nodes {
    subject: Subject,
    shared: Vec<SharedStore>,
    networks: Vec<Faulty>,
    cut_off: Client,
    other: Client,
    name: LockName,
}

impl Nodes {
    async fn new() -> Self {
        Self::of(3).await
    }

    async fn of(count: usize) -> Self {
        let clock = FakeClock::new();
        let subject = subject(&clock);
        let nodes: Vec<Memory> = memory_nodes(count, &clock);
        let shared: Vec<_> = nodes.into_iter().map(SharedStore::new).collect();
        let faults = Faults { timeout: TTL, ..Faults::default() };
        let network = |node: &SharedStore| Faulty::new(node.clone(), clock.clone(), faults, 1);
        let networks: Vec<_> = shared.iter().map(network).collect();
        let cut_off = client(&clock, networks.iter().cloned()).await;
        let other = client(&clock, shared.iter().cloned()).await;
        Self { subject, shared, networks, cut_off, other, name: name("modes") }
    }

    /// Cuts the client off from these nodes, and from no others.
    fn cut(&self, indexes: &[usize]) {
        for (index, network) in self.networks.iter().enumerate() {
            network.cut(if indexes.contains(&index) { OUTAGE } else { Duration::ZERO });
        }
    }

    async fn read(&self) -> Guard {
        self.read_as(Mode::Shared).await
    }

    async fn read_as(&self, reader: Mode) -> Guard {
        let lock = self.cut_off.rwlock(&self.name);
        let lock = match reader {
            Mode::Upgradable => lock.upgradable_read(),
            _ => lock.read(),
        };
        let lock = lock.ttl(TTL).renewal(Renewal::Off);
        let guard = must(self.subject.drive(lock.acquire()).await);
        self.renew(&guard).await;
        guard
    }

    async fn renew(&self, guard: &Guard) {
        must(self.subject.drive(guard.renew()).await);
    }

    async fn others_read(&self) -> bool {
        let lock = self.other.rwlock(&self.name).read();
        must(self.subject.drive(lock.try_acquire()).await).is_some()
    }

    /// The mode of the holder, as an operator sees it.
    async fn mode_seen_by(&self, client: &Client) -> Mode {
        let status = must(self.subject.drive(client.admin().inspect(&self.name)).await);
        let [holder] = &status.holders[..] else { panic!("{status:?}") };
        holder.mode
    }

    /// The mode of the only hold, as a node has it.
    async fn mode_at(&self, index: usize) -> Mode {
        let look = Operation::On { name: self.name.clone(), action: Action::Inspect { limit: 10 } };
        match must(self.shared[index].execute(look).await).reply {
            Reply::Status(status) if status.holders.len() == 1 => status.holders[0].mode,
            other => panic!("{other:?}"),
        }
    }
}

async fn client(clock: &FakeClock, nodes: impl Iterator<Item = impl Store>) -> Client {
    let nodes = nodes.map(|node| Box::new(node) as Box<dyn Store>).collect();
    let quorum = must(Quorum::with_clock(nodes, clock.clone()));
    must(Client::builder().store(quorum).clock(clock.clone()).build().await)
}

/// One node is away, and another reader comes first at each of the other two. Both get the same
/// number.
#[tokio::test]
async fn two_readers_have_two_tokens_though_each_is_the_first_at_another_node() {
    let clock = FakeClock::new();
    let subject = subject(&clock);
    let nodes: Vec<_> = memory_nodes(3, &clock).into_iter().map(SharedStore::new).collect();
    let longest = Duration::from_millis(1);
    let faults = Faults { delay: longest, timeout: TTL, ..Faults::default() };
    let mut seeds = 1..;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let network = |node: &SharedStore| {
            Faulty::new(node.clone(), clock.clone(), faults, seeds.next().unwrap_or_default())
        };
        let networks: Vec<_> = nodes.iter().map(network).collect();
        networks[2].cut(OUTAGE);
        clients.push(client(&clock, networks.into_iter()).await);
    }
    let before = client(&clock, nodes.iter().cloned()).await;
    let mut with_one_number = 0;
    for round in 0..100 {
        let name = name(&format!("readers/{round}"));
        // Its token is ahead of both proposals, so each node gives them its own next token.
        clock.step_wall(STEP_US);
        let lock = before.rwlock(&name).write().ttl(TTL);
        let guard = must(subject.drive(lock.acquire()).await);
        must(subject.drive(guard.release()).await);
        clock.step_wall(-STEP_US);
        let locks = [0, 1].map(|at: usize| clients[at].rwlock(&name).read().ttl(TTL));
        let guards = subject.drive(join_all(locks.iter().map(Lock::acquire))).await;
        let guards: Vec<_> = guards.into_iter().map(must).collect();
        let [one, other] = [0, 1].map(|at: usize| guards[at].token());
        assert_ne!(one, other);
        with_one_number += u32::from(one.micros() == other.micros());
        for guard in guards {
            let validity = must(subject.drive(guard.renew()).await);
            assert!(validity > TTL / 2, "it is known by the number alone");
            must(subject.drive(guard.release()).await);
        }
    }
    assert!(with_one_number > 0, "the nodes were never reached in two orders");
}

/// Others are shown only the number of a reader.
#[tokio::test]
async fn a_reader_is_revoked_by_the_number_that_is_shown_of_it() {
    let nodes = Nodes::new().await;
    let guard = nodes.read().await;
    // Time until the client listens for messages.
    nodes.subject.pass(Duration::from_secs(1)).await;
    let status = must(nodes.subject.drive(nodes.other.admin().inspect(&nodes.name)).await);
    let shown = status.holders[0].token;
    assert!(shown < guard.token() && shown.micros() == guard.token().micros());
    assert!(must(nodes.subject.drive(nodes.other.admin().revoke(&nodes.name, shown)).await));
    assert_eq!(nodes.subject.drive(guard.lost()).await, Some(LossReason::Revoked));
}

/// The node that keeps the lease longest has a reader, and lets others read beside it.
#[tokio::test]
async fn a_writer_counts_only_the_nodes_on_which_it_writes() {
    let nodes = Nodes::new().await;
    let mut guard = nodes.read().await;
    nodes.subject.pass(TTL / 2).await;
    nodes.cut(&[0]);
    nodes.renew(&guard).await;
    nodes.cut(&[2]);
    must(nodes.subject.drive(guard.upgrade()).await);
    assert_eq!(nodes.mode_at(0).await, Mode::Exclusive);
    assert_eq!(nodes.mode_at(2).await, Mode::Shared);
    while guard.is_held() {
        assert!(!nodes.others_read().await || !guard.is_held(), "beside {guard:?}");
        nodes.subject.pass(TTL / 10).await;
    }
}

#[tokio::test]
async fn a_node_that_has_missed_a_change_of_mode_is_told_by_the_next_renewal() {
    for reader in [Mode::Shared, Mode::Upgradable] {
        let nodes = Nodes::new().await;
        let mut guard = nodes.read_as(reader).await;
        nodes.cut(&[2]);
        must(nodes.subject.drive(guard.upgrade()).await);
        nodes.cut(&[]);
        assert_eq!(nodes.mode_at(2).await, reader);
        nodes.renew(&guard).await;
        assert_eq!(nodes.mode_at(2).await, Mode::Exclusive);
        nodes.cut(&[2]);
        must(nodes.subject.drive(guard.downgrade()).await);
        nodes.cut(&[]);
        assert_eq!(nodes.mode_at(2).await, Mode::Exclusive);
        nodes.renew(&guard).await;
        assert_eq!(nodes.mode_at(2).await, reader);
    }
}

/// Two upgradable readers may each have a minority for a moment, and one of them a majority.
#[tokio::test]
async fn of_two_upgradable_readers_one_has_a_majority() {
    let nodes = Nodes::new().await;
    nodes.cut(&[0]);
    let mut guard = nodes.read_as(Mode::Upgradable).await;
    let other = nodes.other.rwlock(&nodes.name).upgradable_read().ttl(TTL);
    let tried = must(nodes.subject.drive(other.try_acquire()).await);
    assert!(tried.is_none(), "beside {guard:?}");
    nodes.cut(&[]);
    must(nodes.subject.drive(guard.upgrade()).await);
    assert!(!nodes.others_read().await);
    must(nodes.subject.drive(guard.release()).await);
    must(must(nodes.subject.drive(other.acquire()).await).ensure_held());
}

/// Once an upgrade is given up, nothing is left of its grant by a minority.
#[tokio::test]
async fn an_upgrade_that_reaches_a_minority_is_taken_back() {
    let nodes = Nodes::new().await;
    let mut guard = nodes.read().await;
    nodes.cut(&[1, 2]);
    {
        let mut upgrade = std::pin::pin!(guard.upgrade());
        let clock = nodes.subject.pass(Duration::from_secs(2));
        tokio::select! {
            biased;
            upgraded = &mut upgrade => panic!("by one of three: {upgraded:?}"),
            () = clock => {}
        }
    }
    assert_eq!(guard.mode(), Mode::Shared);
    nodes.cut(&[]);
    nodes.renew(&guard).await;
    assert_eq!(nodes.mode_at(0).await, Mode::Shared);
    assert!(nodes.others_read().await);
}

/// If not all nodes can be asked, a majority may have the writer although the answering nodes do
/// not agree.
#[tokio::test]
async fn a_writer_of_whom_a_node_knows_only_the_reader_is_shown_as_the_writer() {
    for (count, missed, away) in [(3, &[2][..], &[0][..]), (5, &[3, 4], &[0]), (5, &[3, 4], &[])] {
        let nodes = Nodes::of(count).await;
        let mut guard = nodes.read().await;
        nodes.cut(missed);
        must(nodes.subject.drive(guard.upgrade()).await);
        nodes.cut(away);
        assert_eq!(
            nodes.mode_seen_by(&nodes.cut_off).await,
            Mode::Exclusive,
            "{away:?} of {count}"
        );
    }
}

/// A reader that waits for another one is the writer once a majority says so. A release that has
/// reached a majority is not enough, because not all of its nodes know that the reader wants to
/// write.
#[tokio::test]
async fn a_reader_that_waits_is_the_writer_once_it_has_asked_again() {
    let nodes = Nodes::of(5).await;
    nodes.cut(&[3, 4]);
    let mut guard = nodes.read().await;
    nodes.cut(&[]);
    let other = nodes.read().await;
    let mut upgrade = Box::pin(guard.upgrade());
    tokio::select! {
        biased;
        upgraded = &mut upgrade => panic!("beside another reader: {upgraded:?}"),
        () = nodes.subject.pass(Duration::from_millis(10)) => {}
    }
    nodes.cut(&[1, 2]);
    must(nodes.subject.drive(other.release()).await);
    assert_eq!(nodes.mode_at(0).await, Mode::Exclusive);
    assert_eq!(nodes.mode_seen_by(&nodes.other).await, Mode::Shared, "on one of five it writes");
    nodes.cut(&[]);
    must(nodes.subject.drive(upgrade).await);
    assert_eq!(nodes.mode_seen_by(&nodes.other).await, Mode::Exclusive);
}
