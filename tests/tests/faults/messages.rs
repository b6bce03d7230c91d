//! F: messages that do not arrive. They are hints: whoever waits for one also asks by itself.

use std::time::Instant;

use leasehold_testkit::RedisServer;

use crate::scene::{LONG, NAME, PATIENCE, Scene, soon};

/// F2: a subscriber that takes nothing off the server is cut off by it.
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

/// F3: the message is lost that says "it is your turn".
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
