//! Nodes on which another client has the name, in every combination.

use std::time::Duration;

use leasehold::store::{Memory, Store};
use leasehold::time::FakeClock;
use leasehold::{Client, Error};
use leasehold_core::{Action, ClientId, End, HolderId, Operation};
use leasehold_testkit::harness::request;
use leasehold_testkit::{Faults, SharedStore, must};

use crate::fleet::{client_of, memory_nodes, name, networked, subject};
use crate::is_not_had;

/// redsync: `TestMutexQuorum`. DistributedLock:
/// `TestFailedAcquireReleasesWhatHasAlreadyBeenAcquired`.
#[tokio::test]
async fn a_majority_of_the_nodes_that_are_left_grants_and_a_minority_keeps_nothing() {
    for count in [3_usize, 5] {
        for combination in 0..1_u32 << count {
            let clock = FakeClock::new();
            let subject = subject(&clock);
            let name = name("taken");
            let nodes: Vec<Memory> = memory_nodes(count, &clock);
            let nodes: Vec<_> = nodes.into_iter().map(SharedStore::new).collect();
            let (taken, left): (Vec<_>, Vec<_>) =
                (0..count).partition(|index| combination >> index & 1 == 1);
            let alone = async |index: &usize| {
                let builder = Client::builder().store(nodes[*index].clone());
                must(builder.clock(clock.clone()).build().await)
            };
            let mut theirs = Vec::new();
            for index in &taken {
                let lock = alone(index).await.mutex(&name);
                theirs.push(must(subject.drive(lock.acquire()).await));
            }
            let all = nodes.iter().map(|node| Box::new(node.clone()) as Box<dyn Store>).collect();
            let client = client_of(all, &clock).await;
            let granted = subject.drive(client.mutex(&name).try_acquire()).await;
            match (left.len() > taken.len(), granted) {
                (true, Ok(Some(guard))) => must(subject.drive(guard.release()).await),
                (false, tried) if is_not_had(&tried) => {}
                (_, other) => panic!("{taken:?} of {count} are taken: {other:?}"),
            }
            for index in &left {
                let node = alone(index).await;
                let is_free = async || must(node.admin().inspect(&name).await).holders.is_empty();
                subject.until("nothing is left of it", is_free).await;
            }
            assert!(theirs.iter().all(leasehold::Guard::is_held));
        }
    }
}

/// A minority may have heard that a run has succeeded, and not that it had been revoked before. The
/// run of a majority has succeeded, also if a majority cannot be asked.
#[tokio::test]
async fn a_run_that_only_a_minority_calls_done_is_begun_again() {
    let day = Duration::from_hours(24);
    for (count, silent) in [(3, 0), (3, 1), (5, 0), (5, 1), (5, 2)] {
        for done in 0..=count - silent {
            let clock = FakeClock::new();
            let (subject, name) = (subject(&clock), name("nightly"));
            let nodes = memory_nodes(count, &clock).into_iter().map(SharedStore::new);
            let nodes: Vec<_> = nodes.collect();
            let take = request(HolderId { client: ClientId(1), attempt: 1 });
            let end = End::new(take.request.clone()).with_done(day);
            for node in &nodes[..done] {
                for action in [Action::Take(take.clone()), Action::End(end.clone())] {
                    must(node.execute(Operation::On { name: name.clone(), action }).await);
                }
            }
            let (networks, clients) = networked(1, &nodes, &clock, Faults::default(), 1).await;
            networks[count - silent..].iter().for_each(|network| network.cut(day));
            let tried = subject.drive(clients[0].mutex(&name).once_per(day).try_acquire()).await;
            let is_done = done > 0 && done + silent > count / 2;
            match tried {
                Ok(Some(_)) if !is_done => {}
                Err(Error::AlreadyDone { .. }) if is_done => {}
                other => panic!("{done} of {count} have it, {silent} are silent: {other:?}"),
            }
        }
    }
}
