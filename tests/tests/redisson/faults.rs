//! Faults of a lock that both languages hold: messages are lost, processes are stopped past their
//! lease, servers fail over, slots move, scripts are forgotten.

use leasehold::{Client, Error, LossReason};
use leasehold_testkit::harness::{acquiring, loss, until};
use leasehold_testkit::{Cluster, Proxy, RedisServer, SentinelFleet, Worker, must};

use super::beside::{MINUTE, Pair, WATCHDOG};
use super::contender::{NAME, Place};

#[tokio::test]
async fn a_message_that_is_lost_costs_ours_a_second_and_theirs_no_more_than_the_lease() {
    let server = must(RedisServer::start());
    let proxy = must(Proxy::start(server.port()));
    proxy.lose_messages(true);
    let far = Place::port(proxy.port(), server.port());
    let Some(mut java) = far.in_resp3().jvm(WATCHDOG) else { return };
    let client = far.client().await;
    java.ask("acquire lock 60000", "acquired");
    let waits = acquiring(client.mutex(NAME).ttl(WATCHDOG));
    java.ask("release", "released");
    let guard = must(must(waits.await));
    java.tell("acquire lock 0");
    let subscribed = format!("PUBSUB NUMSUB redisson_lock__channel:{{{NAME}}}");
    until("it has subscribed", async || must(server.command::<(String, u32)>(&subscribed)).1 > 0)
        .await;
    must(guard.release().await);
    java.expect("acquired");
}

#[tokio::test]
async fn a_process_that_is_stopped_past_its_lease_finds_out_and_lets_go_of_nothing() {
    let Some(mut pair) = Pair::start().await else { return };
    let mut ours = pair.place.ours();
    ours.ask("acquire lock 1000", "acquired");
    ours.stop();
    pair.java("acquire lock 0", "acquired");
    ours.cont();
    ours.ask("held", "lost");
    ours.ask("release", "refused");
    pair.java("held", "held");
    pair.java.stop();
    let guard = must(pair.client.mutex(NAME).acquire().await);
    pair.java.cont();
    pair.java("held", "lost");
    pair.java("release", "refused");
    must(guard.renew().await);
}

#[tokio::test]
async fn scripts_that_the_server_forgets_are_loaded_again_by_both() {
    let Some(mut pair) = Pair::start().await else { return };
    let guard = must(pair.client.mutex(NAME).acquire().await);
    pair.java("try lock", "busy");
    for _ in 0..2 {
        must(pair.server.command::<()>("SCRIPT FLUSH"));
        must(guard.renew().await);
        must(pair.server.command::<()>("SCRIPT FLUSH"));
        pair.java("try lock", "busy");
    }
    must(pair.server.command::<()>("SCRIPT FLUSH"));
    must(guard.release().await);
    must(pair.server.command::<()>("SCRIPT FLUSH"));
    pair.java("acquire lock 0", "acquired");
    must(pair.server.command::<()>("SCRIPT FLUSH"));
    assert!(must(pair.client.mutex(NAME).try_acquire().await).is_none());
    pair.java("release", "released");
}

/// Each side holds once while a fault happens, and still holds afterwards. The other side is
/// kept out, and the release lets it in.
async fn keeps_its_lock_through(
    place: &Place,
    client: &Client,
    java: &mut Worker,
    mut happens: impl FnMut(),
) {
    let mutex = client.mutex(NAME).ttl(MINUTE);
    let guard = must(mutex.acquire().await);
    happens();
    until("it is renewed", async || guard.renew().await.is_ok()).await;
    java.ask("try lock", "busy");
    must(guard.release().await);
    java.ask("acquire lock 0", "acquired");
    happens();
    until("it is kept out", async || mutex.try_acquire().await.is_ok_and(|guard| guard.is_none()))
        .await;
    let waits = tokio::spawn({
        let (client, mutex) = (place.client().await, mutex.clone());
        async move { (mutex.acquire().await, client) }
    });
    java.ask("held", "held");
    java.ask("release", "released");
    let (guard, _client) = must(waits.await);
    must(must(guard).release().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_either_side_outlives_a_failover_that_loses_nothing() {
    let fleet = must(SentinelFleet::start());
    let place = Place::sentinel(&fleet);
    let Some(mut java) = place.jvm(MINUTE) else { return };
    let client = place.client().await;
    keeps_its_lock_through(&place, &client, &mut java, || {
        must(fleet.servers().wait_in_sync());
        must(fleet.fail_over());
        must(fleet.servers().wait_in_sync());
        must(fleet.wait_acquainted());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_forgets_a_lock_of_ours_lets_theirs_in_and_ours_is_told() {
    let mut fleet = must(SentinelFleet::start());
    let place = Place::sentinel(&fleet);
    let client = place.client().await;
    must(fleet.servers().cut_off(1));
    let guard = must(client.mutex(NAME).ttl(MINUTE).acquire().await);
    must(fleet.servers_mut()[0].kill9());
    must(fleet.servers()[1].cont());
    must(fleet.wait_for_another_primary(0));
    let Some(mut java) = place.jvm(MINUTE) else { return };
    java.ask("acquire lock 0", "acquired");
    assert_eq!(loss(&guard).await, LossReason::Vanished);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    java.ask("held", "held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_either_side_moves_with_its_slot() {
    let cluster = must(Cluster::start(0));
    let place = Place::cluster(&cluster);
    let Some(mut java) = place.jvm(MINUTE) else { return };
    let client = place.client().await;
    let slot = must(cluster.slot_of(NAME));
    keeps_its_lock_through(&place, &client, &mut java, || {
        let from = must(cluster.owner(slot));
        must(cluster.move_slot(slot, (from + 1) % 3));
    })
    .await;
}
