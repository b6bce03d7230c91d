//! B: the network between a client and the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::admin::{ClientId, HolderId};
use leasehold::error::StoreErrorKind;
use leasehold::lease::Renewal;
use leasehold::store::redis_wire::Script;
use leasehold::store::{Redis, Store};
use leasehold::{Client, Error, LockName, LossReason};
use leasehold_core::{Action, Operation};
use leasehold_testkit::harness::{acquiring, request};
use leasehold_testkit::{Fault, Proxy, RedisServer, options_of};

use crate::contend::{Hurting, Memory, connect_all, contend_during, read_or_write_during};
use crate::scene::{LONG, NAME, SHORT, Scene, connect, has_ended, loss, reliable_until, soon};

/// The faults by which a reply does not arrive, or not as a whole.
const REPLY_LOST: [Fault; 5] = [
    Fault::BreakReply(0),
    Fault::BreakReply(1),
    Fault::BreakReply(5),
    Fault::GarbleReply,
    Fault::LoseReply,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_lost_reply_of_acquire_gives_the_same_grant() {
    for fault in REPLY_LOST {
        let scene = Scene::new().await;
        let lost = scene.proxy.strike(1, Script::Draw, fault);
        let acquiring = acquiring(scene.far.mutex(NAME).ttl(LONG));
        soon(lost.happened()).await;
        let granted = scene.tokens(NAME).await;
        let guard = soon(acquiring).await.unwrap().unwrap();
        assert_eq!(granted, [guard.token()], "{fault:?}");
        let asked = Instant::now();
        let validity = guard.validity();
        let status = scene.status(NAME).await;
        let left = status.holders[0].ttl_left + asked.elapsed();
        assert!(validity < left, "{fault:?}: believed for {validity:?}, {left:?} are left");
        guard.release().await.unwrap();
        scene.assert_free().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b1_a_lost_reply_of_adopt_gives_the_same_grant() {
    for fault in REPLY_LOST {
        let scene = Scene::new().await;
        let lease = scene.take().await.into_lease().unwrap();
        let lost = scene.proxy.strike(1, Script::Take, fault);
        let (far, same) = (scene.far.clone(), lease.clone());
        let adopting = tokio::spawn(async move { far.adopt(same).await });
        soon(lost.happened()).await;
        let granted = scene.tokens(NAME).await;
        let guard = soon(adopting).await.unwrap().unwrap();
        assert_eq!(granted, [guard.token()], "{fault:?}");
        assert!(guard.token() > lease.token, "{fault:?}");
        guard.release().await.unwrap();
        scene.assert_free().await;
    }
}

/// B5: an abandoned adoption arrives after its cancel, and the lease is unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_an_adoption_that_arrives_after_its_cancel_adopts_nothing() {
    let scene = Scene::new().await;
    let lease = scene.take().await.into_lease().unwrap();
    let held = scene.proxy.strike(1, Script::Take, Fault::HoldRequest);
    let cancelled = scene.proxy.strike(1, Script::End, Fault::RepeatRequest);
    let (far, same) = (scene.far.clone(), lease.clone());
    let adopting = tokio::spawn(async move { far.adopt(same).await });
    soon(held.happened()).await;
    adopting.abort();
    soon(cancelled.happened()).await;
    scene.proxy.deliver().unwrap();
    let holders = scene.status(NAME).await.holders;
    assert_eq!(holders.iter().map(|holder| holder.id).collect::<Vec<_>>(), [lease.holder]);
    let guard = soon(scene.far.adopt(lease)).await.unwrap();
    guard.release().await.unwrap();
    scene.assert_free().await;
}

/// B2: the reply of release is lost, another client is granted, and the release comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_a_release_that_comes_again_touches_nobody() {
    for fault in REPLY_LOST {
        let scene = Scene::new().await;
        let guard = soon(scene.far.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
        let token = guard.token();
        let lost = scene.proxy.strike(1, Script::End, fault);
        let again = scene.proxy.strike(2, Script::End, Fault::RepeatRequest);
        let releasing = tokio::spawn(guard.release());
        soon(lost.happened()).await;
        let next = scene.take().await;
        assert!(next.token() > token);
        soon(again.happened()).await;
        soon(releasing).await.unwrap().expect("the keeper goes on until the store knows");
        assert_eq!(scene.tokens(NAME).await, [next.token()], "{fault:?}");
        next.renew().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_lost_reply_of_renew_extends_nothing() {
    for fault in REPLY_LOST {
        let scene = Scene::new().await;
        // Nobody else renews the lease: the keeper would, once its inbox is open.
        let lock = scene.far.mutex(NAME).ttl(LONG).renewal(Renewal::Off);
        let guard = soon(lock.acquire()).await.unwrap();
        assert_eq!(scene.tokens(NAME).await, [guard.token()], "its keeper has described it");
        let (_, before) = reliable_until(&guard);
        let lost = scene.proxy.strike(1, Script::Keep, fault);
        let error = soon(guard.renew()).await.unwrap_err();
        soon(lost.happened()).await;
        assert!(matches!(&error, Error::Store(error) if error.may_have_executed()), "{error:?}");
        let (still, _) = reliable_until(&guard);
        assert!(still <= before, "{fault:?}: extended on hope by {:?}", still - before);
        guard.ensure_held().expect("a failed renewal ends nothing");
    }
}

/// B3: the keeper asks again, long before the lease would end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_a_renewal_without_a_reply_is_sent_again() {
    for fault in REPLY_LOST {
        let scene = Scene::new().await;
        let guard = soon(scene.far.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
        assert_eq!(scene.tokens(NAME).await, [guard.token()], "its keeper has described it");
        let (_, before) = reliable_until(&guard);
        let lost = scene.proxy.strike(1, Script::Keep, fault);
        let again = scene.proxy.strike(2, Script::Keep, Fault::RepeatRequest);
        // Messages may have been lost, so the holder renews immediately.
        scene.cut_inboxes().await;
        soon(lost.happened()).await;
        soon(again.happened()).await;
        let extended = async {
            while reliable_until(&guard).0 <= before {
                tokio::task::yield_now().await;
            }
        };
        soon(extended).await;
        assert_eq!(scene.tokens(NAME).await, [guard.token()], "{fault:?}");
    }
}

/// B4: the reply "you are in the queue" is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_lost_reply_of_joining_gives_one_place() {
    for fault in REPLY_LOST {
        let scene = Scene::new().await;
        let first = scene.take().await;
        let lost = scene.proxy.strike(1, Script::Take, fault);
        let again = scene.proxy.strike(2, Script::Take, Fault::RepeatRequest);
        let waiting = acquiring(scene.far.mutex(NAME).ttl(LONG));
        soon(lost.happened()).await;
        soon(again.happened()).await;
        assert_eq!(scene.status(NAME).await.waiting, 1, "{fault:?}");
        first.release().await.unwrap();
        let next = soon(waiting).await.unwrap().unwrap();
        let status = scene.status(NAME).await;
        assert_eq!((status.waiting, status.holders.len()), (0, 1), "{fault:?}");
        next.release().await.unwrap();
        scene.assert_free().await;
    }
}

/// B5: an acquire is on its way for longer than its caller waits, and arrives after the cancel of
/// the same attempt. Another holder has come and died meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_an_acquire_that_arrives_after_its_cancel_grants_nothing() {
    let scene = Scene::of(RedisServer::options().own_clock().start().unwrap()).await;
    // The requests that a client sends only on its first call must not count.
    soon(scene.far.mutex("b").acquire()).await.unwrap().release().await.unwrap();
    let held = scene.proxy.strike(1, Script::Draw, Fault::HoldRequest);
    let cancelled = scene.proxy.strike(1, Script::End, Fault::RepeatRequest);
    // Too short for a new connection: the old one may be silent for longer.
    let patience = Duration::from_secs(1);
    let error = scene.far.mutex(NAME).ttl(LONG).acquire_within(patience).await.unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }), "{error:?}");
    soon(held.happened()).await;
    soon(cancelled.happened()).await;
    let dies = scene.near.mutex(NAME).ttl(SHORT).renewal(Renewal::Off).acquire().await.unwrap();
    std::mem::forget(dies);
    scene.server.set_clock(3.0 * SHORT.as_secs_f64() + 5.0, 1.0).unwrap();
    assert_eq!(scene.proxy.deliver().unwrap().len(), 1);
    assert!(scene.status(NAME).await.holders.is_empty(), "an orphan holds it");
    scene.assert_free().await;
}

/// B5, the control: without a cancel, the late acquire does grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_an_acquire_that_nobody_cancelled_grants_whenever_it_comes() {
    let scene = Scene::new().await;
    let store = Redis::open(options_of(&scene.proxy.url())).await.unwrap();
    let request = request(HolderId { client: ClientId(1), attempt: 1 }).with_waits(true);
    let held = scene.proxy.strike(1, Script::Draw, Fault::HoldRequest);
    let (name, action) = (LockName::new(NAME).unwrap(), Action::Take(request));
    let error = store.execute(Operation::On { name, action }).await.unwrap_err();
    assert!(error.may_have_executed() && error.kind() == StoreErrorKind::Timeout, "{error}");
    soon(held.happened()).await;
    assert!(scene.status(NAME).await.holders.is_empty(), "it has not arrived yet");
    scene.proxy.deliver().unwrap();
    assert_eq!(scene.status(NAME).await.holders.len(), 1);
}

/// B6: every request of a whole life arrives twice: grant, renewal, joining, claim and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_requests_that_arrive_twice_change_nothing_more() {
    let scene = Scene::new().await;
    // Each waiter is a separate client: callers of one client would stand in line, and ask once.
    let another = async || connect(&format!("{}?timeout=2s", scene.proxy.url())).await;
    let twice = |script| soon(scene.proxy.strike(1, script, Fault::RepeatRequest).happened());

    let acquired = twice(Script::Draw);
    let guard = scene.far.mutex(NAME).ttl(LONG).acquire().await.unwrap();
    acquired.await;
    assert_eq!(scene.tokens(NAME).await, [guard.token()]);
    let renewed = twice(Script::Keep);
    guard.renew().await.unwrap();
    renewed.await;
    assert_eq!(scene.tokens(NAME).await, [guard.token()]);

    let lock = another().await.mutex(NAME).ttl(LONG);
    let joined = twice(Script::Take);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    joined.await;
    let lock = another().await.mutex(NAME);
    let (gives_up, cancelled) = (twice(Script::Take), twice(Script::End));
    let given_up = tokio::spawn(async move { lock.acquire_within(SHORT).await });
    gives_up.await;
    assert!(scene.status(NAME).await.waiting <= 2, "each has one place");
    assert!(matches!(soon(given_up).await.unwrap(), Err(Error::Timeout { .. })));
    cancelled.await;
    assert_eq!(scene.status(NAME).await.waiting, 1);

    // Without messages, the waiter finds the grant when it asks again, and has it.
    scene.proxy.lose_messages(true);
    let (released, claimed) = (twice(Script::End), twice(Script::Take));
    let token = guard.token();
    guard.release().await.unwrap();
    released.await;
    claimed.await;
    let next = soon(waiting).await.unwrap().unwrap();
    assert_eq!(scene.status(NAME).await.waiting, 0);
    assert_eq!(scene.tokens(NAME).await, [next.token()]);
    assert!(next.token() > token);
    next.release().await.unwrap();
    scene.assert_free().await;
}

/// Cuts the far holder off. It is told in time, and the next holder enters before anything is
/// mended. What arrives after the mending touches nobody.
async fn is_told_before_the_next_enters(cut: fn(&Proxy, bool)) {
    let scene = Scene::new().await;
    let guard = soon(scene.far.mutex(NAME).ttl(SHORT).acquire()).await.unwrap();
    let next = scene.wait().await;
    cut(&scene.proxy, true);
    let next = next.await;
    assert!(has_ended(guard.lost()), "two are in it at once");
    assert_eq!(loss(&guard).await, LossReason::Expired);
    assert!(next.token() > guard.token());
    let calls = || scene.server.command_stats("evalsha").unwrap().0;
    let before = calls();
    cut(&scene.proxy, false);
    // Once the far client is granted something again, all its earlier requests have arrived.
    drop(soon(scene.far.mutex("b").acquire()).await.unwrap());
    assert!(calls() > before);
    assert!(matches!(guard.renew().await, Err(Error::Lost { .. })), "lost is final");
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    next.renew().await.expect("nobody touched it");
    assert_eq!(scene.tokens(NAME).await, [next.token()]);
}

/// B7: nothing passes between holder and server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_holder_that_is_cut_off_is_told_before_the_next_enters() {
    is_told_before_the_next_enters(Proxy::swallow).await;
}

/// B8: requests arrive, and replies do not. The server goes on renewing without the holder's
/// knowledge. So the holder must stop asking once it has given up, or nobody else ever enters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b8_a_holder_that_hears_nothing_stops_renewing_once_it_is_lost() {
    is_told_before_the_next_enters(Proxy::mute).await;
}

/// B9: requests do not arrive, though messages still come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_a_holder_that_is_not_heard_is_told_although_messages_come() {
    is_told_before_the_next_enters(Proxy::deafen).await;
}

/// B10: replies break off or are garbled while others are under way on the same connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b10_no_reply_is_taken_for_another_after_a_broken_one() {
    for fault in REPLY_LOST {
        let scene = Scene::new().await;
        let lost = scene.proxy.strike(1, Script::Draw, fault);
        // These calls may be lost with the connection before their fault.
        drop([2, 3].map(|nth| scene.proxy.strike(nth, Script::Draw, fault)));
        let names: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
        let acquiring = names.iter().map(|name| {
            let lock = scene.far.mutex(name.as_str()).ttl(LONG);
            tokio::spawn(async move { lock.acquire().await })
        });
        let acquiring: Vec<_> = acquiring.collect();
        let mut guards = Vec::new();
        for acquiring in acquiring {
            guards.push(soon(acquiring).await.unwrap().unwrap());
        }
        soon(lost.happened()).await;
        for (name, guard) in names.iter().zip(&guards) {
            assert_eq!(scene.tokens(name).await, [guard.token()], "{fault:?}: {name}");
        }
        for guard in guards {
            guard.release().await.unwrap();
        }
    }
}

/// B14: replies come byte by byte. They count once the last byte is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_a_holder_whose_replies_drip_is_told_before_the_next_enters() {
    is_told_before_the_next_enters(|proxy, drips| {
        proxy.drip(if drips { Duration::from_millis(200) } else { Duration::ZERO });
    })
    .await;
}

/// B1 to B10 at random moments: replies are lost, and then their connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_lost_answers_under_contention_grant_nothing_twice_and_leave_nothing_behind() {
    while_answers_are_lost(async |losing, clients| {
        contend_during(losing, clients, 15, Memory::Kept).await;
    })
    .await;
}

/// The same for readers and writers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_lost_answers_let_nobody_in_beside_a_writer() {
    while_answers_are_lost(async |losing, clients| {
        read_or_write_during(losing, clients, 8).await;
    })
    .await;
}

async fn while_answers_are_lost(contend: impl AsyncFnOnce(Hurting, &[Client])) {
    let server = RedisServer::start().unwrap();
    let proxy = Arc::new(Proxy::start(server.port()).unwrap());
    let clients = connect_all(&proxy.url(), 4).await;
    let losing = Hurting::every(Duration::from_millis(100), {
        let proxy = Arc::clone(&proxy);
        move || {
            proxy.mute(true);
            std::thread::sleep(Duration::from_millis(20));
            proxy.cut();
            proxy.mute(false);
        }
    });
    contend(losing, &clients).await;
    for client in clients {
        client.close().await.unwrap();
    }
    let watcher = connect(&server.patient_url()).await;
    assert!(watcher.admin().list("", 10).await.unwrap().is_empty(), "something is still held");
}

/// C15: connections are killed by an operator, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_killed_connections_lose_no_waiter_and_no_lease() {
    let server = RedisServer::start().unwrap();
    let clients = connect_all(&server.url(), 4).await;
    let killing = Hurting::by(&server, Duration::from_millis(100), "CLIENT KILL TYPE normal");
    contend_during(killing, &clients, 20, Memory::Kept).await;
}
