//! A renewal is on its way while the lease goes from one caller to the next: its answer counts for
//! the holder at its arrival.

use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::{Guard, LossReason};

use super::world::{Call, TTL, World, must, settle};

/// When a lease is due for renewal: a third of its ttl after its grant, and a little later.
const DUE: Duration = Duration::from_secs(12);

/// A lease that is passed on while its renewal is held back: its holder, and the caller behind.
async fn passed_on(world: &World) -> (Guard, Call) {
    let client = world.client_with(TTL).await;
    let guard = Call::new(&client).granted();
    let mut next = Call::waiting(&client).await;
    let behind = Call::waiting(&client).await;
    world.hold_back(Some("renew"));
    world.asked();
    world.clock.advance(DUE);
    settle().await;
    assert_eq!(world.asked(), ["renew"]);
    must(guard.release().await);
    let guard = next.granted();
    assert!(guard.validity() < TTL - DUE);
    (guard, behind)
}

#[tokio::test]
async fn a_renewal_that_is_under_way_while_the_lease_is_passed_on_prolongs_it_for_the_next() {
    let world = World::new();
    let (guard, mut behind) = passed_on(&world).await;
    world.hold_back(None);
    settle().await;
    assert!(guard.validity() > TTL - DUE, "{:?}", guard.validity());
    drop(guard);
    let guard = behind.granted();
    assert!(guard.validity() > TTL - DUE, "{:?}", guard.validity());
    assert_eq!(world.asked(), [""; 0]);
}

#[tokio::test]
async fn a_renewal_that_is_refused_after_the_lease_was_passed_on_is_a_loss_of_the_next() {
    let world = World::new();
    let (guard, mut behind) = passed_on(&world).await;
    let operator = world.client().await;
    let shown = must(operator.admin().inspect("a").await).holders[0].token.unwrap();
    world.lose_messages();
    assert!(must(operator.admin().revoke_now("a", shown).await));
    settle().await;
    assert!(guard.is_held(), "nobody can have told it");
    world.hold_back(None);
    settle().await;
    assert!(guard.loss().is_some(), "long before its validity is over");
    let next = behind.granted();
    assert!(next.token().micros() > shown.micros());
}

#[tokio::test]
async fn without_an_answer_to_the_renewal_the_lease_ends_in_time_in_any_hands() {
    let world = World::new();
    let (guard, mut behind) = passed_on(&world).await;
    let left = guard.validity();
    world.clock.advance(left);
    settle().await;
    assert_eq!(guard.loss(), Some(LossReason::Expired));
    assert!(behind.poll().is_none(), "the store may keep it for longer");
    world.hold_back(None);
    settle().await;
    assert_eq!(guard.loss(), Some(LossReason::Expired), "what is lost stays lost");
}

#[tokio::test]
async fn a_lease_that_is_over_is_passed_on_to_nobody() {
    let world = World::new();
    let (guard, mut behind) = passed_on(&world).await;
    world.clock.advance(guard.validity());
    // The keeper has not noticed yet.
    drop(guard);
    assert!(behind.poll().is_none());
}

#[tokio::test]
async fn after_an_unanswered_renewal_for_longer_the_release_is_repeated_for_that_longer_time() {
    let world = World::new();
    let guard = Call::new(&world.client().await).granted();
    settle().await;
    world.hold_back_replies(Some("renew"));
    assert!(guard.renew_for(120 * TTL).now_or_never().is_none());
    world.hold_back_replies(None);
    world.refuse(Some("release"));
    drop(guard);
    settle().await;
    world.clock.advance(TTL + Duration::from_secs(1));
    settle().await;
    world.refuse(None);
    world.clock.advance(Duration::from_secs(1));
    settle().await;
    assert!(world.is_idle());
}

#[tokio::test]
async fn a_late_answer_prolongs_the_lease_by_the_ttl_that_was_asked_for_and_not_by_a_later_one() {
    let world = World::new();
    let guard = Call::new(&world.client().await).granted();
    settle().await;
    world.hold_back_replies(Some("renew"));
    let mut longer = Box::pin(guard.renew_for(10 * TTL));
    assert!((&mut longer).now_or_never().is_none());
    world.clock.advance(DUE);
    settle().await;
    world.hold_back_replies(None);
    must(longer.await);
    settle().await;
    assert!(guard.validity() <= 10 * TTL - DUE, "{:?}", guard.validity());
}
