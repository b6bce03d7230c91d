//! I: the wall clock of the server, by which leases end, and from which tokens come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold::event::Event;
use leasehold::{Client, FencingToken};
use leasehold_testkit::RedisServer;

use crate::scene::{LONG, NAME, SHORT, Scene, breaks_exclusion_and_not_the_order, loss, soon};

/// Longer than any lease of these tests, and longer than any possible lease: two hours, ten years.
const HOURS_S: f64 = 2.0 * 3600.0;
const YEARS_S: f64 = 10.0 * 365.0 * 24.0 * 3600.0;

async fn scene() -> Scene {
    Scene::of(RedisServer::options().own_clock().start().unwrap()).await
}

/// Counts the warnings that a clock was set.
async fn alarmed(scene: &Scene) -> (Client, Arc<AtomicU32>) {
    let warnings = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&warnings);
    let observer = move |event: &Event<'_>| {
        if let Event::Warning { text, .. } = event
            && text.contains("the store's clock was set")
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let client = Client::builder().url(scene.server.patient_url()).observer(observer).build();
    (client.await.unwrap(), warnings)
}

async fn take_and_release(client: &Client) -> FencingToken {
    let guard = soon(client.mutex(NAME).acquire()).await.unwrap();
    let token = guard.token();
    soon(guard.release()).await.unwrap();
    token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i1_a_clock_set_forward_lets_another_in_with_a_greater_token() {
    breaks_exclusion_and_not_the_order(scene().await, async |scene: &mut Scene| {
        scene.server.set_clock(HOURS_S, 1.0).unwrap();
    })
    .await;
}

/// I1 and I2: the client that uses the store next is warned, once for each time that the clock is
/// set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i1_a_clock_that_was_set_is_warned_of_once_an_answer_says_the_time() {
    let scene = scene().await;
    let (client, warnings) = alarmed(&scene).await;
    let guard = soon(client.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    let looks = async || drop(soon(client.admin().inspect(NAME)).await.unwrap());
    looks().await;
    assert_eq!(warnings.load(Ordering::Relaxed), 0, "it goes on as time does");
    scene.server.set_clock(10.0, 1.0).unwrap();
    soon(guard.renew()).await.expect("ten seconds of an hour");
    looks().await;
    assert_eq!(warnings.load(Ordering::Relaxed), 1);
    looks().await;
    assert_eq!(warnings.load(Ordering::Relaxed), 1, "once");
    scene.server.set_clock(0.0, 1.0).unwrap();
    looks().await;
    assert_eq!(warnings.load(Ordering::Relaxed), 2);
}

/// I2: set back. A key of the server lasts for as much longer, which delays the next holder. Tokens
/// go on growing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i2_a_clock_set_back_only_delays_the_next_and_tokens_go_on_growing() {
    let scene = scene().await;
    let before = take_and_release(&scene.near).await;
    let guard = soon(scene.far.mutex(NAME).ttl(SHORT).acquire()).await.unwrap();
    scene.proxy.swallow(true);
    scene.server.set_clock(-HOURS_S, 1.0).unwrap();
    let lock = scene.near.mutex(NAME).ttl(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    loss(&guard).await;
    scene.queued(1).await;
    assert!(!waiting.is_finished());
    scene.server.set_clock(0.0, 1.0).unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(before < guard.token() && guard.token() < next.token());
}

/// I2: a holder that still reaches the server keeps its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i2_a_holder_keeps_its_lease_when_the_clock_is_set_back() {
    let scene = scene().await;
    let guard = scene.take().await;
    let waiting = scene.wait().await;
    for ahead_s in [-HOURS_S, -2.0 * HOURS_S] {
        scene.server.set_clock(ahead_s, 1.0).unwrap();
        guard.renew().await.unwrap();
        assert_eq!(scene.tokens(NAME).await, [guard.token()]);
    }
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.token() > token);
}

/// I3: ten years ahead for a moment. As long as the counter is there, tokens go on growing; once it
/// is lost they begin anew with the clock, below those of the future. That is the limit of tokens
/// that come from a clock; the jump has been warned of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i3_tokens_from_the_future_break_the_order_once_the_counter_is_lost() {
    let scene = scene().await;
    let (client, warnings) = alarmed(&scene).await;
    let first = take_and_release(&client).await;
    soon(client.admin().inspect(NAME)).await.unwrap();
    scene.server.set_clock(YEARS_S, 1.0).unwrap();
    let future = take_and_release(&client).await;
    soon(client.admin().inspect(NAME)).await.unwrap();
    assert_eq!(warnings.load(Ordering::Relaxed), 1, "the jump is warned of when it happens");
    assert!(first < future && future.micros() < 1 << 53, "{future} would not be exact in Lua");
    scene.server.set_clock(0.0, 1.0).unwrap();
    let back = take_and_release(&client).await;
    assert!(back > future, "the counter remembers");
    scene.server.command::<()>("FLUSHALL").unwrap();
    let after = take_and_release(&client).await;
    assert!(first < after && after < future, "nothing else was to be expected");
}
