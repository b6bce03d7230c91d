//! A failover forgets what no replica had: holders are told, tokens grow, and no client is left
//! behind.

use std::time::Duration;

use leasehold::store::{Redis, Store};
use leasehold::{Error, FencingToken, LossReason};
use leasehold_core::{Action, ClientId, End, HolderId, Keep, LockName, Operation, Reply};
use leasehold_testkit::{SentinelFleet, options_of};
use tokio::task::JoinSet;

use crate::{LONG, SHORT, connect, loss, queued, request, retry, soon};

/// Kills the primary and lets the replica take over, which has not got the last writes.
fn fail_over_to_the_past(fleet: &mut SentinelFleet) {
    fleet.servers_mut()[0].kill9().unwrap();
    fleet.servers()[1].cont().unwrap();
    fleet.wait_for_another_primary(0).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_the_holder_of_a_grant_that_no_replica_had_is_told_and_tokens_go_on_growing() {
    let mut fleet = SentinelFleet::start().unwrap();
    let (client, other) = (connect(fleet.url()).await, connect(fleet.url()).await);
    fleet.servers().cut_off(1).unwrap();
    // The next regular renewal is far away: the lost inbox makes the client ask.
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.mutex("a").ttl(LONG).acquire().await });
    queued(&client, "a", 1).await;
    fail_over_to_the_past(&mut fleet);
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    let reason = loss(&guard).await;
    assert_eq!(reason, LossReason::Vanished);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    assert!(next.is_held(), "the late release touches nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_of_waiters_that_were_served_meanwhile_are_passed_over() {
    // The new primary still has these places. If each of them cost the claim window of a grant, the
    // test would time out.
    const SERVED: u32 = 70;
    let mut fleet = SentinelFleet::start().unwrap();
    let client = connect(fleet.url()).await;
    let guard = client.mutex("a").ttl(SHORT).acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..SERVED {
        let lock = client.mutex("a");
        waiting.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    }
    queued(&client, "a", SERVED).await;
    fleet.servers().wait_in_sync().unwrap();
    fleet.servers().cut_off(1).unwrap();
    guard.release().await.unwrap();
    while let Some(served) = soon(waiting.join_next()).await {
        served.unwrap();
    }
    fail_over_to_the_past(&mut fleet);
    soon(client.mutex("a").acquire()).await.unwrap().release().await.unwrap();
}

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

async fn ask(store: &Redis, action: Action) -> Reply {
    let name = LockName::new("a").unwrap();
    let operation = Operation::On { name, action };
    retry(async || store.execute(operation.clone()).await).await.reply
}

async fn acquire(store: &Redis, id: HolderId) -> Option<FencingToken> {
    let request = request(id).with_ttl(LONG);
    match ask(store, Action::Take(request)).await {
        Reply::Granted(grant) => Some(grant.token),
        Reply::Busy { .. } => None,
        other => panic!("{other:?}"),
    }
}

fn renew(id: HolderId, ttl: Duration) -> Action {
    Action::Keep(Keep::new(request(id).request, ttl))
}

async fn release(store: &Redis, id: HolderId) -> Reply {
    ask(store, Action::End(End::new(request(id).request))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d17_a_forgotten_release_is_repeated_by_its_owner_and_hits_nobody_else() {
    let mut fleet = SentinelFleet::start().unwrap();
    let store = Redis::open(options_of(&fleet.url())).await.unwrap();
    let first = acquire(&store, id(1)).await.expect("it is free");
    fleet.servers().wait_in_sync().unwrap();
    fleet.servers().cut_off(1).unwrap();
    assert_eq!(release(&store, id(1)).await, Reply::Ended(true));
    fail_over_to_the_past(&mut fleet);
    assert_eq!(acquire(&store, id(2)).await, None, "the new primary has not heard of the release");
    assert_eq!(release(&store, id(1)).await, Reply::Ended(true), "the same attempt again");
    let second = acquire(&store, id(2)).await.expect("it is free now");
    assert!(second > first);
    assert_eq!(release(&store, id(1)).await, Reply::Ended(false));
    let renewed = ask(&store, renew(id(2), LONG)).await;
    assert!(matches!(renewed, Reply::Kept { .. }), "{renewed:?}");
}
