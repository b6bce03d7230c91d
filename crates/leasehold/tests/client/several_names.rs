//! Several names at once, on the memory store.

use std::time::Duration;

use leasehold::lease::Renewal;
use leasehold::{Client, Error, FencingToken, Guard, LockName, LossReason};

use super::line::world::{Call, TTL, World, must, settle};

const SOON: Duration = Duration::from_secs(10);

async fn until_somebody_waits(client: &Client, name: &str) {
    let name = LockName::new(name).unwrap();
    while client.admin().inspect(&name).await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
}

async fn is_free(client: &Client, name: &str) -> bool {
    match client.mutex(name).try_acquire().await.unwrap() {
        Some(guard) => guard.release().await.is_ok(),
        None => false,
    }
}

fn tokens(guard: &Guard) -> Vec<(&str, FencingToken)> {
    guard.tokens().map(|(name, token)| (name.as_str(), token)).collect()
}

#[tokio::test]
async fn a_caller_that_waits_for_a_name_keeps_those_before_it_and_none_after_it() {
    let client = Client::memory();
    let busy = client.mutex("b").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = client.multi(["c", "b", "a"]);
        async move { lock.acquire().await }
    });
    until_somebody_waits(&client, "b").await;
    assert!(!is_free(&client, "a").await);
    assert!(is_free(&client, "c").await);
    busy.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn losing_one_name_loses_all_and_keeps_the_others_taken_until_the_guard_is_gone() {
    let client = Client::memory();
    let guard = client.multi(["a", "b"]).ttl(Duration::from_secs(2)).acquire().await.unwrap();
    let lost = guard.lost();
    let (name, token) = guard.tokens().nth(1).map(|(name, token)| (name.clone(), token)).unwrap();
    assert!(client.admin().revoke(&name, token).await.unwrap());
    assert_eq!(lost.await, Some(LossReason::Revoked));
    assert_eq!(guard.validity(), Duration::ZERO);
    let Err(Error::Lost { name: said, .. }) = guard.ensure_held() else { panic!("it is held") };
    assert_eq!(said, name);
    // A holder that has not noticed the loss must not meet another one under the remaining name.
    assert!(!is_free(&client, "a").await);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    client.multi(["a", "b"]).acquire_within(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_guard_of_several_names_is_renewed_and_reentered_like_any_other() {
    let client = Client::memory();
    let lock = client.multi(["a", "b"]).ttl(Duration::from_secs(5)).renewal(Renewal::Off);
    let guard = lock.acquire().await.unwrap();
    assert!(guard.renew().await.unwrap() > Duration::ZERO);
    let inner = guard.reenter().unwrap();
    guard.release().await.unwrap();
    assert!(inner.is_held());
    assert!(matches!(inner.into_lease(), Err(Error::Invalid(_))));
    client.multi(["a", "b"]).acquire_within(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn names_that_were_given_back_are_not_kept_for_min_hold() {
    let client = Client::memory();
    let busy = client.mutex("b").acquire().await.unwrap();
    let lock = client.multi(["a", "b"]).min_hold(Duration::from_secs(3600));
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(is_free(&client, "a").await);
    busy.release().await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(!is_free(&client, "a").await && !is_free(&client, "b").await);
}

/// Polls a call, and lets all other tasks run, until somebody waits for a name.
async fn until_it_waits(call: &mut Call, client: &Client, name: &str) {
    let name = LockName::new(name).unwrap();
    while client.admin().inspect(&name).await.unwrap().waiting == 0 {
        assert!(call.poll().is_none());
        settle().await;
    }
}

#[tokio::test]
async fn a_wait_for_several_names_ends_500_ms_after_its_limit_even_if_no_answer_comes() {
    let world = World::new();
    let (one, other) = (world.client().await, world.client().await);
    let busy = must(one.mutex("b").acquire().await);
    let (lock, limit) = (other.multi(["a", "b", "c"]), Duration::from_secs(1));
    let mut call = Call(Box::pin(async move { lock.acquire_within(limit).await }));
    until_it_waits(&mut call, &one, "b").await;
    world.hold_back(Some("acquire"));
    must(busy.release().await);
    settle().await;
    assert!(call.poll().is_none(), "it asks for c");
    world.clock.advance(limit + Duration::from_millis(500));
    let ended = call.poll();
    assert!(matches!(ended, Some(Err(Error::Indeterminate { .. }))), "{ended:?}");
}

#[tokio::test]
async fn a_wait_of_no_time_asks_again_for_names_that_another_call_has_just_taken() {
    let world = World::new();
    let (one, other) = (world.client().await, world.client().await);
    let busy = must(one.mutex("b").acquire().await);
    let both = other.multi(["a", "b"]);
    let mut call = Call(Box::pin(async move { both.acquire_within(Duration::ZERO).await }));
    assert!(call.poll().is_none());
    must(busy.release().await);
    world.clock.advance(Duration::from_millis(100));
    assert_eq!(tokens(&call.granted()).len(), 2);
}

#[tokio::test]
async fn a_wait_of_no_time_for_several_names_ends_with_the_holder_of_the_busy_one() {
    let world = World::new();
    let (one, other) = (world.client().await, world.client().await);
    let _busy = must(one.mutex("b").label("stock taking").acquire().await);
    world.clock.advance(Duration::from_secs(1));
    let error = other.multi(["a", "b"]).acquire_within(Duration::ZERO).await.unwrap_err();
    let Error::Timeout { name, holder: Some(holder), .. } = error else { panic!("{error}") };
    assert_eq!((name.as_str(), holder.info.label.as_deref()), ("b", Some("stock taking")));
    assert!(is_free(&other, "a").await);
}

#[tokio::test]
async fn names_that_their_holder_is_to_renew_are_renewed_until_the_call_has_all_of_them() {
    let world = World::new();
    let (one, other) = (world.client().await, world.client().await);
    let busy = must(one.mutex("b").acquire().await);
    let lock = other.multi(["a", "b"]).ttl(TTL).renewal(Renewal::Off);
    let mut call = Call(Box::pin(async move { lock.acquire().await }));
    until_it_waits(&mut call, &one, "b").await;
    let a = LockName::new("a").unwrap();
    let first = must(one.admin().inspect(&a).await).holders[0].token.unwrap();
    let second = Duration::from_secs(1);
    for _ in 0..40 {
        world.clock.advance(second);
        settle().await;
        assert!(call.poll().is_none());
    }
    must(busy.release().await);
    settle().await;
    let guard = call.granted();
    assert_eq!(tokens(&guard)[0].1, first, "it has held a since the beginning");
    settle().await;
    world.asked();
    for _ in 0..TTL.as_secs() {
        world.clock.advance(second);
        settle().await;
    }
    assert!(!world.asked().contains(&"renew"));
    assert!(!guard.is_held());
}
