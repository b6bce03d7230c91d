//! Leases that are handed out and adopted: of all who try, at most one has a majority.

use std::time::Duration;

use futures_util::future::join;
use leasehold::store::Store;
use leasehold::store::redis_wire::Script;
use leasehold::time::FakeClock;
use leasehold::{Client, Error};
use leasehold_testkit::harness::soon;
use leasehold_testkit::proxy::Fault;
use leasehold_testkit::{Faults, Faulty, SharedStore, Subject, must};

use crate::fleet::{Fleet, client_of, memory_nodes, name, networked, subject};

const TTL: Duration = Duration::from_secs(6);

/// Two clients, each with its own network to the same nodes, and a client that has acquired.
struct Race {
    subject: Subject,
    holder: Client,
    networks: Vec<Faulty>,
    clients: Vec<Client>,
}

impl Race {
    async fn new(nodes: usize, faults: Faults, seed: u64) -> Self {
        let clock = FakeClock::new();
        let subject = subject(&clock);
        let shared: Vec<_> =
            memory_nodes(nodes, &clock).into_iter().map(SharedStore::new).collect();
        let near = shared.iter().cloned().map(|node| Box::new(node) as Box<dyn Store>);
        let holder = client_of(near.collect(), &clock).await;
        let (networks, clients) = networked(2, &shared, &clock, faults, seed).await;
        Self { subject, holder, networks, clients }
    }

    /// Both adopt one lease. Returns how many got it, and the errors of the others.
    async fn run(&self) -> (usize, Vec<Error>) {
        let [one, two] = &self.clients[..] else { panic!("two clients") };
        // An earlier release has arrived everywhere: a node that still holds the lease has no vote.
        self.subject.pass(TTL).await;
        let lock = self.holder.mutex("handed out").ttl(TTL);
        let guard = must(self.subject.drive(lock.acquire()).await);
        must(self.subject.drive(guard.renew()).await); // every node has it from then on
        let lease = must(guard.into_lease());
        let both = join(one.adopt(lease.clone()), two.adopt(lease.clone()));
        let (first, second) = self.subject.drive(both).await;
        let (mut had_it, mut refusals) = (0, Vec::new());
        for adopted in [first, second] {
            match adopted {
                Ok(guard) => {
                    had_it += 1;
                    assert!(guard.token() > lease.token);
                    drop(self.subject.drive(guard.release()).await);
                }
                Err(error) => refusals.push(error),
            }
        }
        (had_it, refusals)
    }
}

#[tokio::test]
async fn h3_of_two_who_adopt_a_lease_at_once_one_has_it() {
    let faults = Faults { delay: Duration::from_millis(3), ..Faults::default() };
    for (nodes, seed) in [3, 5].into_iter().flat_map(|nodes| (0..40).map(move |s| (nodes, s))) {
        let race = Race::new(nodes, faults, seed).await;
        for _ in 0..3 {
            let (had_it, refusals) = race.run().await;
            assert_eq!(had_it, 1, "{nodes} nodes, seed {seed}: {refusals:?}");
            assert!(matches!(refusals[..], [Error::NotAdopted { .. }]), "{refusals:?}");
        }
    }
}

#[tokio::test]
async fn a_quorum_gives_a_lease_to_one_at_most_while_the_network_does_not_keep_its_promises() {
    let faults = Faults {
        lose_request: 10,
        lose_answer: 10,
        cut: 2,
        cut_for: TTL / 4,
        delay: Duration::from_millis(4),
        timeout: Duration::from_millis(400),
        ..Faults::default()
    };
    let mut adopted = 0;
    for seed in 0..16 {
        let race = Race::new(if seed % 2 == 0 { 3 } else { 5 }, faults, seed).await;
        let (had_it, refusals) = race.run().await;
        assert!(had_it < 2, "seed {seed}: {refusals:?}");
        adopted += had_it;
        race.networks.iter().for_each(Faulty::heal);
        race.subject.pass(TTL + Duration::from_secs(15)).await;
        let (had_it, refusals) = race.run().await;
        assert_eq!(had_it, 1, "seed {seed}, healed: {refusals:?}");
    }
    assert!(adopted > 4, "{adopted}");
}

/// A majority may have granted the name to somebody else meanwhile, who has let go.
#[tokio::test]
async fn a_lease_that_a_majority_of_nodes_has_forgotten_is_adopted_by_nobody() {
    let fleet = Fleet::start(3);
    let (client, name) = (fleet.client().await, name("forgotten"));
    for forgetful in [2, 3] {
        let guard = must(soon(client.mutex(&name).ttl(TTL).acquire()).await);
        // The acquire of a slow node is late, or is never sent: then a renewal restores it.
        fleet.until(2, &name, |status| !status.holders.is_empty()).await;
        let lease = must(guard.into_lease());
        for server in &fleet.servers[..forgetful] {
            must(server.command::<()>("FLUSHALL"));
        }
        let refused = soon(client.adopt(lease)).await.unwrap_err();
        assert!(matches!(refused, Error::NotAdopted { .. }), "{refused:?}");
        for index in 0..3 {
            fleet.until_free(index, &name).await;
        }
    }
}

/// The other nodes are free, and remember for a while that the lease was adopted there.
#[tokio::test]
async fn a_lease_that_was_adopted_and_released_is_not_adopted_again_where_one_node_still_has_it() {
    let fleet = Fleet::start(3);
    let network = fleet.network();
    let (near, far) = (fleet.client().await, network.client().await);
    let name = name("handed out");
    let guard = must(soon(near.mutex(&name).ttl(TTL * 10).acquire()).await);
    must(guard.renew().await);
    fleet.until(2, &name, |status| !status.holders.is_empty()).await;
    let lease = must(guard.into_lease());
    network.swallow(&[2], true);
    must(soon(must(soon(far.adopt(lease.clone())).await).release()).await);
    assert!(!fleet.seen_by(2, &name).await.holders.is_empty());
    let refused = soon(near.adopt(lease)).await.unwrap_err();
    assert!(matches!(refused, Error::NotAdopted { .. }), "{refused:?}");
}

/// The replies of a majority are lost. When asked again, the nodes repeat them.
#[tokio::test]
async fn a_lost_reply_of_adopt_at_a_majority_gives_the_same_grant() {
    let fleet = Fleet::start(3);
    let network = fleet.network();
    let (near, far) = (fleet.client().await, network.client().await);
    drop(must(far.mutex("warm").try_acquire().await));
    let name = name("handed out");
    for fault in [Fault::BreakReply(0), Fault::LoseReply, Fault::RepeatRequest] {
        let guard = must(soon(near.mutex(&name).ttl(TTL).acquire()).await);
        let lease = must(guard.into_lease());
        let struck = [0, 1].map(|index| network.proxies[index].strike(1, Script::Take, fault));
        let guard = must(soon(far.adopt(lease.clone())).await);
        for lost in struck {
            soon(lost.happened()).await;
        }
        assert!(guard.token() > lease.token, "{fault:?}");
        must(guard.renew().await.map(drop));
        let refused = soon(near.adopt(lease)).await.unwrap_err();
        assert!(matches!(refused, Error::NotAdopted { .. }), "{fault:?}: {refused:?}");
        must(guard.release().await);
        for index in 0..3 {
            fleet.until_free(index, &name).await;
        }
    }
}
