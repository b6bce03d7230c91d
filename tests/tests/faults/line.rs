//! What befalls a holder befalls it with a line behind it: three callers of the same client, to
//! whom its lease would be passed on. Whatever becomes of that, they are served, one at a time, in
//! their order, with growing tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::event::Event;
use leasehold::{Client, FencingToken, Guard, LossReason};
use leasehold_testkit::harness::{acquiring, until};
use leasehold_testkit::{Data, RedisServer};
use tokio::task::JoinHandle;

use crate::scene::{LONG, NAME, SHORT, Scene, has_ended, loss, soon};

/// Longer than a scenario: only the fault makes a client request another lease.
const SLICE: Duration = LONG;

/// The callers that stand behind a holder of their client, in order.
struct Line(Vec<JoinHandle<leasehold::Result<Guard>>>);

impl Line {
    /// A holder with this store URL, and three behind it.
    async fn behind_a_holder(url: &str, ttl: Duration) -> (Guard, Self) {
        let waiting = Arc::new(AtomicUsize::new(0));
        let observer = {
            let waiting = Arc::clone(&waiting);
            move |event: &Event<'_>| {
                if let Event::Waiting { .. } = event {
                    waiting.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let builder = Client::builder().url(url).slice(SLICE).observer(observer);
        let client = soon(builder.build()).await.unwrap();
        let guard = soon(client.mutex(NAME).ttl(ttl).acquire()).await.unwrap();
        let mut line = Vec::new();
        for place in 1..=3 {
            line.push(acquiring(client.mutex(NAME).ttl(ttl)));
            let is_in_line = async || waiting.load(Ordering::Relaxed) == place;
            until("it stands in line", is_in_line).await;
        }
        (guard, Self(line))
    }

    /// The next caller gets the lease, and no caller behind it.
    async fn next(&mut self) -> Guard {
        let guard = soon(self.0.remove(0)).await.unwrap().unwrap();
        assert!(self.0.iter().all(|behind| !behind.is_finished()), "one at a time");
        guard
    }

    /// All callers of the line are served after this token, in order, and the server knows each.
    async fn served_after(mut self, mut last: FencingToken, scene: &Scene) {
        while !self.0.is_empty() {
            let guard = self.next().await;
            assert!(guard.token() > last, "{} came after {last}", guard.token());
            soon(guard.renew()).await.unwrap();
            let held: Vec<_> = scene.tokens(NAME).await.iter().map(|held| held.micros()).collect();
            assert_eq!(held, [guard.token().micros()]);
            last = guard.token();
            soon(guard.release()).await.unwrap();
        }
        scene.assert_free().await;
    }
}

/// C1: killed without persistence, and at once there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_the_line_behind_a_holder_is_served_by_a_server_that_comes_back_empty() {
    let mut scene = Scene::new().await;
    let (guard, line) = Line::behind_a_holder(&scene.server.patient_url(), LONG).await;
    scene.server.restart(Data::Dropped).unwrap();
    assert_eq!(loss(&guard).await, LossReason::Vanished);
    line.served_after(guard.token(), &scene).await;
}

/// C2: killed, with everything on disk that it had acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_a_restart_with_an_append_only_file_costs_a_line_no_lease() {
    let server = RedisServer::options().append_only("always").start().unwrap();
    let mut scene = Scene::of(server).await;
    let (guard, mut line) = Line::behind_a_holder(&scene.server.patient_url(), LONG).await;
    scene.server.restart(Data::Kept).unwrap();
    let granted = guard.token();
    soon(guard.release()).await.unwrap();
    let guard = line.next().await;
    assert_eq!(guard.token().micros(), granted.micros(), "the same lease is passed on");
    soon(guard.renew()).await.expect("it is still known");
    let last = guard.token();
    soon(guard.release()).await.unwrap();
    line.served_after(last, &scene).await;
}

/// C5: stopped for longer than the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_the_line_behind_a_holder_is_served_by_a_server_that_goes_on_after_the_lease() {
    let scene = Scene::new().await;
    let (guard, line) = Line::behind_a_holder(&scene.server.url(), 2 * SHORT).await;
    scene.server.stop().unwrap();
    assert_eq!(loss(&guard).await, LossReason::Expired);
    scene.server.cont().unwrap();
    line.served_after(guard.token(), &scene).await;
}

/// C11: the data are deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_the_line_behind_a_holder_is_served_after_a_flush() {
    let scene = Scene::new().await;
    let (guard, mut line) = Line::behind_a_holder(&scene.server.patient_url(), LONG).await;
    // The caller that has the lease when it turns out to be lost is told, and no caller before.
    soon(guard.release()).await.unwrap();
    let guard = line.next().await;
    scene.server.command::<()>("FLUSHALL").unwrap();
    scene.cut_inboxes().await;
    assert_eq!(loss(&guard).await, LossReason::Vanished);
    line.served_after(guard.token(), &scene).await;
}

/// B7: nothing passes between the client and the server. The holder is told before somebody else
/// enters, and nobody in line holds anything until the link is mended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_line_that_is_cut_off_gets_nothing_and_is_served_when_it_is_not() {
    let scene = Scene::new().await;
    let url = format!("{}?timeout=2s", scene.proxy.url());
    let (guard, line) = Line::behind_a_holder(&url, SHORT).await;
    let next = scene.wait().await;
    scene.proxy.swallow(true);
    let next = next.await;
    assert!(has_ended(guard.lost()), "two are in it at once");
    assert_eq!(loss(&guard).await, LossReason::Expired);
    assert!(line.0.iter().all(|behind| !behind.is_finished()), "nobody has granted them anything");
    scene.proxy.swallow(false);
    next.renew().await.expect("nobody touched it");
    let last = next.token();
    assert!(last > guard.token());
    soon(next.release()).await.unwrap();
    line.served_after(last, &scene).await;
}

/// An operator revokes the grant that he sees; the caller in line that has it is asked to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_revoked_is_lost_by_its_holder_and_the_line_is_served() {
    let scene = Scene::new().await;
    let (guard, mut line) = Line::behind_a_holder(&scene.server.patient_url(), LONG).await;
    soon(guard.release()).await.unwrap();
    let guard = line.next().await;
    let shown = scene.tokens(NAME).await[0];
    assert!(scene.near.admin().revoke(NAME, shown).await.unwrap());
    assert_eq!(loss(&guard).await, LossReason::Revoked);
    assert!(line.0.iter().all(|behind| !behind.is_finished()), "it may still be at work");
    let last = guard.token();
    drop(guard);
    line.served_after(last, &scene).await;
}
