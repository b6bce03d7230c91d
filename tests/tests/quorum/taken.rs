//! Nodes on which another client has the name, in every combination.

use leasehold::Client;
use leasehold::store::{Memory, Store};
use leasehold::time::FakeClock;
use leasehold_testkit::{SharedStore, must};

use crate::fleet::{client_of, memory_nodes, name, subject};
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
