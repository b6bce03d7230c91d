//! Callers of one client stand in line for a name: the lease goes from one to the next, and the
//! client asks the store when a slice is over. The tests move the clock, and the store counts.

mod closing;
mod crowd;
mod renewing;
pub(crate) mod world;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::event::Event;
use leasehold::{Client, Error, LossReason};

use self::world::{Call, SLICE, TTL, World, settle};

#[tokio::test]
async fn a_holder_whose_lease_was_passed_on_can_change_its_label() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let mut next = Call::waiting(&client).await;
    drop(guard);
    let guard = next.granted();
    // The keeper is telling the store who has the lease: without a label.
    world.hold_back(Some("renew"));
    world.clock.advance(Duration::from_secs(1));
    settle().await;
    guard.set_label("phase 2").await.unwrap();
    world.hold_back(None);
    settle().await;
    let holders = client.admin().inspect("a").await.unwrap().holders;
    assert_eq!(holders[0].info.label.as_deref(), Some("phase 2"));
}

#[tokio::test]
async fn who_takes_over_a_place_at_the_store_is_shown_with_its_own_label() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    let guard = Call::new(&other).granted();
    let [mut first, mut second] = ["first", "second"].map(|label| {
        let lock = client.mutex("a").ttl(TTL).label(label);
        Call(Box::pin(async move { lock.acquire().await }))
    });
    assert!(first.poll().is_none());
    settle().await;
    assert!(first.poll().is_none() && second.poll().is_none());
    drop(first);
    guard.release().await.unwrap();
    settle().await;
    let _guard = second.granted();
    world.clock.advance(Duration::from_millis(200));
    settle().await;
    let holders = other.admin().inspect("a").await.unwrap().holders;
    assert_eq!(holders[0].info.label.as_deref(), Some("second"));
}

#[tokio::test]
async fn a_grant_in_a_message_counts_although_the_reply_to_its_request_was_lost() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    Call::new(&client).granted().release().await.unwrap();
    let guard = Call::new(&other).granted();
    world.lose_replies(Some("acquire"));
    let mut first = Call::waiting(&client).await;
    let mut second = Call::waiting(&client).await;
    world.lose_replies(None);
    assert_eq!(world.waiting_at_the_store().await, 1);
    guard.release().await.unwrap();
    settle().await;
    world.clock.advance(Duration::from_millis(50));
    settle().await;
    assert!(second.poll().is_none());
    drop(first.granted());
    drop(second.granted());
}

#[tokio::test]
async fn a_grant_that_was_claimed_unanswered_and_then_revoked_is_not_in_its_waiters_way() {
    let world = World::new();
    let (client, other) = (world.client().await, world.client().await);
    let guard = Call::new(&other).granted();
    world.lose_messages();
    let mut call = Call::waiting(&client).await;
    world.lose_replies(Some("poll"));
    guard.release().await.unwrap();
    let claimed = loop {
        if world.asked().contains(&"poll") {
            break other.admin().inspect("a").await.unwrap().holders[0].token.unwrap();
        }
        world.clock.advance(Duration::from_millis(50));
        settle().await;
    };
    assert!(other.admin().revoke("a", claimed).await.unwrap());
    world.lose_replies(None);
    for _ in 0..100 {
        if let Some(guard) = call.poll() {
            assert!(guard.unwrap().token() > claimed);
            return;
        }
        world.clock.advance(TTL / 300);
        settle().await;
    }
    panic!("it waits for itself");
}

#[tokio::test]
async fn what_is_dropped_and_asked_for_again_takes_no_round_trip() {
    let world = World::new();
    let client = world.client().await;
    let mut guard = Call::new(&client).granted();
    settle().await;
    world.asked();
    for _ in 0..10 {
        let token = guard.token();
        drop(guard);
        guard = Call::new(&client).granted();
        assert!(guard.token() > token);
    }
    assert_eq!(world.asked(), [""; 0]);
    drop(guard);
    settle().await;
    assert_eq!(world.asked(), ["release"], "nobody came");
}

#[tokio::test]
async fn a_request_that_is_out_is_asked_again_by_the_next_when_its_caller_is_dropped() {
    let world = World::new();
    let client = world.client().await;
    Call::new(&client).granted().release().await.unwrap();
    world.hold_back(Some("acquire"));
    let first = Call::waiting(&client).await;
    let mut second = Call::waiting(&client).await;
    let mut third = Call::waiting(&client).await;
    world.hold_back(None);
    world.asked();
    drop(first);
    let guard = second.granted();
    assert_eq!(world.asked(), ["acquire"]);
    drop(guard);
    third.granted().release().await.unwrap();
    settle().await;
    assert_eq!(world.asked(), ["release", "cancel"]);
}

#[tokio::test]
async fn a_caller_that_takes_on_a_release_and_is_not_polled_holds_up_nobody() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    settle().await;
    world.clock.advance(SLICE);
    world.hold_back(Some("release"));
    world.hold_back_replies(Some("acquire"));
    drop(guard);
    let mut next = Call::new(&client);
    assert!(next.poll().is_none());
    settle().await;
    world.hold_back(None);
    assert_eq!(world.waiting_at_the_store().await, 1);
    world.clock.advance(Duration::from_secs(2));
    settle().await;
    assert_eq!(world.waiting_at_the_store().await, 0, "it has the lease");
    drop(next);
    world.hold_back_replies(None);
    settle().await;
    assert!(world.is_idle());
}

#[tokio::test]
async fn a_loss_is_told_to_the_holder_and_the_first_in_line_asks_for_another_lease() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let mut calls = [Call::waiting(&client).await, Call::waiting(&client).await];
    drop(guard);
    let guard = calls[0].granted();
    world.asked();
    let admin = client.admin();
    let shown = admin.inspect("a").await.unwrap().holders[0].token.unwrap();
    assert!(shown < guard.token());
    assert!(admin.revoke("a", shown).await.unwrap());
    settle().await;
    assert_eq!(guard.loss(), Some(LossReason::Revoked));
    assert!(calls[1].poll().is_none(), "the store holds until the other lets go");
    drop(guard);
    settle().await;
    let next = calls[1].granted();
    assert!(next.token().micros() > shown.micros());
}

#[tokio::test]
async fn an_adoption_that_was_made_unanswered_and_then_revoked_leaves_no_holder() {
    let world = World::new();
    let (client, heir) = (world.client().await, world.client().await);
    Call::new(&heir).granted().release().await.unwrap();
    let lease = Call::new(&client).granted().into_lease().unwrap();
    world.lose_replies(Some("adopt"));
    let mut adoption = std::pin::pin!(heir.adopt(lease));
    assert!(adoption.as_mut().now_or_never().is_none());
    let adopted = client.admin().inspect("a").await.unwrap().holders[0].token.unwrap();
    assert!(client.admin().revoke("a", adopted).await.unwrap());
    world.lose_replies(None);
    let refused = loop {
        if let Some(refused) = adoption.as_mut().now_or_never() {
            break refused;
        }
        world.clock.advance(Duration::from_millis(50));
        settle().await;
    };
    let Err(Error::NotAdopted { reason, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(reason, LossReason::Revoked);
    settle().await;
    assert!(world.is_idle());
}

#[tokio::test]
async fn a_lease_that_is_not_what_was_granted_leaves_the_line() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let mut call = Call::waiting(&client).await;
    world.asked();
    guard.renew_for(TTL * 2).await.unwrap();
    assert!(call.poll().is_none());
    assert_eq!(world.asked(), ["renew", "acquire"]);
    drop(guard);
    settle().await;
    let guard = call.granted();
    let mut call = Call::waiting(&client).await;
    world.asked();
    let lease = guard.into_lease().unwrap();
    assert!(call.poll().is_none());
    assert_eq!(world.asked(), ["acquire"]);
    client.adopt(lease).await.unwrap().release().await.unwrap();
    settle().await;
    drop(call.granted());
}

#[tokio::test]
async fn a_lease_that_was_passed_on_is_renewed() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let mut call = Call::waiting(&client).await;
    drop(guard);
    let guard = call.granted();
    let before = guard.validity();
    world.clock.advance(Duration::from_secs(12));
    settle().await;
    assert!(guard.is_held() && guard.validity() > before - Duration::from_secs(1));
}

#[tokio::test]
async fn a_caller_in_line_says_so_and_a_limit_names_the_holder() {
    let world = World::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let told = Arc::clone(&told);
        move |event: &Event<'_>| {
            if let Event::Waiting { ahead, own, .. } = event {
                told.lock().unwrap().push((*ahead, own.is_some()));
            }
        }
    };
    let builder = Client::builder().store(world.store.clone()).clock(world.clock.clone());
    let client = builder.observer(observer).build().await.unwrap();
    let guard = Call::new(&client).granted();
    let _second = Call::waiting(&client).await;
    let lock = client.mutex("a").ttl(TTL);
    let limited = tokio::spawn(async move { lock.acquire_within(SLICE).await });
    settle().await;
    assert_eq!(*told.lock().unwrap(), [(Some(0), true), (Some(1), true)]);
    world.clock.advance(SLICE);
    let error = limited.await.unwrap().unwrap_err();
    let Error::Timeout { holder, own, .. } = &error else { panic!("{error:?}") };
    assert_eq!(holder.as_ref().unwrap().id, guard.holder());
    assert!(own);
    assert!(error.to_string().ends_with("use Guard::reenter"), "it may be the same task: {error}");
}

#[tokio::test]
async fn an_answer_that_no_waiting_changes_goes_to_all_in_line() {
    let world = World::new();
    let client = world.client().await;
    let _permit = client.semaphore("a", 3).permit().acquire().await.unwrap();
    world.hold_back(Some("acquire"));
    let first = Call::waiting(&client).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(Call::waiting(&client).await);
    }
    world.hold_back(None);
    world.asked();
    drop(first);
    for call in &mut calls {
        assert!(matches!(call.poll(), Some(Err(Error::Store(_)))));
    }
    assert_eq!(world.asked(), ["acquire"]);
}

#[tokio::test]
async fn a_caller_that_asks_for_something_else_asks_the_store() {
    let world = World::new();
    let client = world.client().await;
    let guard = Call::new(&client).granted();
    let _in_line = Call::waiting(&client).await;
    let others = [
        client.mutex("a").ttl(2 * TTL),
        client.mutex("a").ttl(TTL).max_hold(TTL),
        client.mutex("a").ttl(TTL).min_hold(SLICE),
        client.rwlock("a").read().ttl(TTL),
        client.multi(["a"]).ttl(TTL),
    ];
    let mut waiting = Vec::new();
    for lock in others {
        let mut call = Call(Box::pin(async move { lock.acquire().await }));
        assert!(call.poll().is_none());
        settle().await;
        waiting.push(call);
    }
    assert_eq!(world.waiting_at_the_store().await as usize, waiting.len());
    drop(guard);
}
