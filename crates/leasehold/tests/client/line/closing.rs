//! A client is closed while its calls are under way.

use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::{Client, Error, LossReason};

use super::world::{Call, SLICE, TTL, World, settle};

#[tokio::test]
async fn closing_ends_all_who_stand_in_line() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let mut calls = [Call::waiting(&client).await, Call::waiting(&client).await];
    client.close().await.unwrap();
    assert_eq!(guard.loss(), Some(LossReason::Closed));
    for call in &mut calls {
        assert!(matches!(call.poll(), Some(Err(Error::Closed))));
    }
}

#[tokio::test]
async fn two_releases_that_wait_for_the_keeper_are_both_sent() {
    let world = World::new();
    let (client, operator) = (world.client().await, world.client().await);
    let guard = Call::new(&client).granted();
    let mut next = Call::waiting(&client).await;
    world.lose_messages();
    let token = operator.admin().inspect("a").await.unwrap().holders[0].token;
    assert!(operator.admin().revoke_now("a", token.unwrap_or(guard.token())).await.unwrap());
    world.clock.advance(SLICE);
    drop(guard);
    drop(next.granted());
    client.close().await.unwrap();
    assert!(world.is_idle());
}

/// Closes a client while a call of it is under way, lets the call go on, and checks that the call
/// gets nothing.
async fn close_during<T>(
    world: &World,
    client: Client,
    call: impl Future<Output = leasehold::Result<T>>,
) {
    let mut call = std::pin::pin!(call);
    assert!(call.as_mut().now_or_never().is_none());
    client.close().await.unwrap();
    world.hold_back(None);
    world.hold_back_replies(None);
    assert!(matches!(call.await, Err(Error::Closed)));
    settle().await;
    assert!(world.is_idle());
}

#[tokio::test]
async fn a_try_that_is_under_way_when_its_client_is_closed_gets_nothing_and_leaves_nothing() {
    for is_executed in [false, true] {
        for names in [&["a"][..], &["a", "b"]] {
            let world = World::new();
            let client = world.client().await;
            Call::new(&client).granted().release().await.unwrap();
            match is_executed {
                true => world.hold_back_replies(Some("acquire")),
                false => world.hold_back(Some("acquire")),
            }
            let lock = client.multi(names).ttl(TTL);
            close_during(&world, client, lock.try_acquire()).await;
        }
    }
}

#[tokio::test]
async fn a_reader_that_asks_a_store_which_is_away_ends_with_its_client_and_asks_no_more() {
    let world = World::new();
    let client = world.client().await;
    Call::new(&client).granted().release().await.unwrap();
    world.refuse(Some("acquire"));
    let reads = client.rwlock("a").read().ttl(TTL);
    let mut call = Call(Box::pin(async move { reads.acquire().await }));
    assert!(call.poll().is_none());
    client.close().await.unwrap();
    world.asked();
    world.clock.advance(Duration::from_secs(1));
    assert!(matches!(call.poll(), Some(Err(Error::Closed))));
    assert_eq!(world.asked(), [""; 0]);
}

#[tokio::test]
async fn an_adoption_that_is_under_way_when_its_client_is_closed_ends_with_it() {
    let world = World::new();
    let (client, heir) = (world.client().await, world.client().await);
    Call::new(&heir).granted().release().await.unwrap();
    let lease = Call::new(&client).granted().into_lease().unwrap();
    world.hold_back_replies(Some("adopt"));
    let adopts = heir.clone();
    close_during(&world, heir, adopts.adopt(lease)).await;
}

#[tokio::test]
async fn a_client_closes_although_a_caller_that_has_taken_on_a_release_is_not_polled() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    settle().await;
    world.clock.advance(SLICE);
    world.hold_back_replies(Some("release"));
    world.hold_back(Some("acquire"));
    drop(guard);
    let mut next = Call::new(&client);
    assert!(next.poll().is_none());
    world.hold_back_replies(None);
    let closing = tokio::spawn(client.close());
    settle().await;
    world.clock.advance(Duration::from_secs(10));
    closing.await.unwrap().unwrap();
    world.hold_back(None);
    assert!(matches!(next.poll(), Some(Err(Error::Closed))));
    settle().await;
    assert!(world.is_idle());
}
