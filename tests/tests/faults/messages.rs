//! F: messages that do not arrive. They are hints: a waiter also polls.

use std::time::{Duration, Instant};

use leasehold::LossReason;
use leasehold::store::Redis;
use leasehold_testkit::RedisServer;

use crate::contend::{Hurting, Memory, connect_all, contend, contend_during};
use crate::scene::{LONG, NAME, PATIENCE, Scene, loss, soon};

/// F1: subscribers are cut off again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f1_killed_subscribers_lose_no_waiter() {
    let server = RedisServer::start().unwrap();
    let clients = connect_all(&server.url(), 4).await;
    let killing = Hurting::by(&server, Duration::from_millis(100), "CLIENT KILL TYPE pubsub");
    contend_during(killing, &clients, 40, Memory::Kept).await;
}

/// F1: a message that was lost meanwhile may concern a holder, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f1_a_holder_whose_messages_may_have_been_lost_asks_whether_it_still_holds() {
    let scene = Scene::new().await;
    let guard = scene.take().await;
    // The next regular renewal is twenty minutes away.
    scene.server.command::<()>("FLUSHALL").unwrap();
    scene.cut_inboxes().await;
    assert_eq!(loss(&guard).await, LossReason::Vanished);
}

/// F2: the server cuts off a subscriber that reads nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f2_a_subscriber_that_reads_too_slowly_costs_no_waiter_and_no_lease() {
    let server = RedisServer::options().line("client-output-buffer-limit pubsub 256kb 0 0");
    let scene = Scene::of(server.start().unwrap()).await;
    let first = scene.take().await;
    let kept = soon(scene.far.mutex("kept").ttl(LONG).acquire()).await.unwrap();
    let lock = scene.far.mutex(NAME).ttl(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    scene.queued(1).await;

    scene.proxy.hold_messages(true);
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(format!("lh:inbox:{}", kept.holder().client)).arg(vec![b'x'; 100_000]);
    let mut connection = scene.server.connection().unwrap();
    let since = Instant::now();
    while publish.query::<u32>(&mut connection).unwrap() > 0 {
        assert!(since.elapsed() < PATIENCE, "the server goes on buffering");
    }
    kept.renew().await.expect("renewals do not come by that connection");
    assert!(!waiting.is_finished());

    first.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert_eq!(scene.tokens(NAME).await, [next.token()]);
    assert_eq!(scene.status(NAME).await.waiting, 0, "it has joined once");
    assert!(kept.is_held());
}

/// F3: the message with a waiter's grant is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f3_a_waiter_whose_message_is_lost_enters_by_asking() {
    let scene = Scene::new().await;
    let first = scene.take().await;
    let lock = scene.far.mutex(NAME).ttl(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    scene.queued(1).await;
    scene.proxy.lose_messages(true);
    first.release().await.unwrap();
    let granted = scene.tokens(NAME).await;
    let next = soon(waiting).await.unwrap().unwrap();
    assert_eq!(granted, [next.token()], "it was granted in the same step as the release");
}

/// C16: no message is sent, because the user may not publish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_without_the_right_to_publish_waiters_find_out_by_asking() {
    let rights = Redis::HOLDER_RIGHTS.replace("+publish ", "");
    let server = RedisServer::options().user(&format!("mute on >pw {rights}")).start().unwrap();
    contend(&connect_all(&server.url_as("mute", "pw"), 2).await, 1).await;
}
