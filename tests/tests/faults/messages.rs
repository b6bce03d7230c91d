//! F: messages that do not arrive. They are hints: a waiter also polls.

use std::time::{Duration, Instant};

use leasehold::store::{Redis, Store};
use leasehold::{LockName, LossReason};
use leasehold_core::{Action, ClientId, End, HolderId, Message, Operation, Reply};
use leasehold_testkit::harness::{acquiring, request, until};
use leasehold_testkit::{RedisServer, fresh_number, options_of};

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
    let waiting = acquiring(scene.far.mutex(NAME).ttl(LONG));
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f3_a_waiter_whose_message_is_lost_enters_by_asking() {
    let scene = Scene::new().await;
    let first = scene.take().await;
    let waiting = acquiring(scene.far.mutex(NAME).ttl(LONG));
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
    let clients = connect_all(&server.url_as("mute", "pw"), 2).await;
    let (guard, waits) = (soon(clients[0].mutex(NAME).acquire()).await, clients[1].mutex(NAME));
    let waiting = tokio::spawn(async move { waits.acquire().await });
    let status = async || clients[0].admin().inspect(NAME).await.unwrap();
    until("it waits", async || status().await.waiting == 1).await;
    guard.unwrap().release().await.expect("the hand-over itself does not fail");
    drop(soon(waiting).await.unwrap().unwrap());
    contend(&clients, 1).await;
}

/// C16: a user may not listen for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_who_may_listen_again_hears_messages_again_and_asks_meanwhile() {
    let server = RedisServer::options().holder().start().unwrap();
    let store = async || Redis::open(options_of(&server.holder_url())).await.unwrap();
    let (name, client) = (LockName::new(NAME).unwrap(), ClientId(fresh_number()));
    let (waits, observes) = (store().await, store().await);
    let mut inbox = waits.inbox(client).await.unwrap();
    let mut news = observes.subscribe(&name).await.unwrap().unwrap();

    // The server closes the connections that the user may no longer have.
    server.command::<()>("ACL SETUSER holder resetchannels").unwrap();
    for _ in 0..2 {
        assert_eq!(soon(news.next()).await, None, "each refusal makes an observer ask");
    }
    let listening = tokio::spawn(async move {
        let heard = inbox.next().await;
        (inbox, heard)
    });
    let is_refused = || waits.warnings().iter().any(|text| text.contains("without messages"));
    until("the inbox is refused", async || is_refused()).await;
    assert!(!listening.is_finished(), "a refusal would renew all leases");

    server.command::<()>("ACL SETUSER holder &lh:inbox:*").unwrap();
    let (mut inbox, heard) = soon(listening).await.unwrap();
    assert_eq!(heard, Message::Gap);
    let act = async |action| {
        let operation = Operation::On { name: name.clone(), action };
        waits.execute(operation).await.unwrap().reply
    };
    let holder = HolderId { client: ClientId(fresh_number()), attempt: 1 };
    let waiter = HolderId { client, attempt: 1 };
    assert!(matches!(act(Action::Take(request(holder))).await, Reply::Granted(_)));
    let waiting = request(waiter).with_waits(true);
    assert!(matches!(act(Action::Take(waiting)).await, Reply::Queued(_)));
    let release = Action::End(End::new(request(holder).request));
    assert_eq!(act(release).await, Reply::Ended(true));
    assert!(matches!(soon(inbox.next()).await, Message::Granted { attempt: 1, .. }));

    let hearing = tokio::spawn(async move {
        loop {
            if let Some(text) = news.next().await {
                return text;
            }
        }
    });
    until("the observer hears", async || {
        observes.publish(&name, "hello").await.unwrap();
        hearing.is_finished()
    })
    .await;
    assert_eq!(hearing.await.unwrap(), "hello");
}
