//! Acquires that are alive and not polled, as in the other branch of a `select!` or on a thread
//! that is blocked: what they are granted meanwhile goes back, and they find that out.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold::admin::Status;
use leasehold::event::Event;
use leasehold::store::Memory;
use leasehold::time::{Clock, FakeClock};
use leasehold::{Client, Error, Guard, LockName};
use leasehold_testkit::{Subject, must};

const TTL: Duration = Duration::from_secs(10);

/// Longer than a grant waits to be fetched.
const TOO_LONG: Duration = Duration::from_secs(3);

/// How soon after a change everything has come to rest.
const SOON: Duration = Duration::from_millis(200);

/// A client whose futures are not always polled, another client, and the first one's events.
struct Scene {
    subject: Subject,
    clock: FakeClock,
    client: Client,
    other: Client,
    told: Arc<Mutex<Vec<&'static str>>>,
}

impl Scene {
    async fn new() -> Self {
        let clock = FakeClock::new();
        let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let observer = move |event: &Event<'_>| {
            let what = match event {
                Event::Granted { .. } => "granted",
                Event::Released { .. } => "released",
                Event::Renewed { .. } => "renewed",
                _ => return,
            };
            must(tell.lock()).push(what);
        };
        let builder = Client::builder().store(subject.store()).clock(clock.clone());
        let client = must(builder.observer(observer).build().await);
        let other = subject.client().await;
        Self { subject, clock, client, other, told }
    }

    fn told(&self) -> Vec<&'static str> {
        std::mem::take(&mut *must(self.told.lock()))
    }

    async fn status(&self, name: &str) -> Status {
        let name = must(LockName::new(name));
        must(self.subject.drive(self.other.admin().inspect(&name)).await)
    }

    async fn is_free(&self, name: &str) -> bool {
        self.status(name).await.is_free()
    }

    /// Polls a future until it waits for a name that another holds.
    async fn until_waiting<T>(&self, name: &str, mut future: Pin<&mut impl Future<Output = T>>) {
        while self.status(name).await.waiting == 0 {
            assert!(poll_once(future.as_mut()).is_pending());
            self.subject.pass(Duration::from_millis(1)).await;
        }
    }
}

fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_grant_is_told_of_once_it_is_delivered_and_is_not_renewed_before() {
    let scene = Scene::new().await;
    let guard = must(scene.subject.drive(scene.other.mutex("a").acquire()).await);
    let lock = scene.client.mutex("a").ttl(TTL);
    let mut waits = pin!(lock.acquire());
    scene.until_waiting("a", waits.as_mut()).await;
    drop(guard);
    scene.subject.pass(SOON).await;
    assert!(!scene.is_free("a").await && scene.told().is_empty(), "it is granted");
    scene.subject.pass(TOO_LONG).await;
    assert!(scene.told().is_empty() && scene.is_free("a").await);
    let guard = must(scene.subject.drive(waits).await);
    must(scene.subject.drive(guard.release()).await);
    assert_eq!(scene.told(), ["granted", "released"]);
}

/// Checks the result of a waiter that was polled again: its guard holds.
async fn check_holds(scene: &Scene, guard: &Guard) {
    must(guard.ensure_held());
    let holders = scene.status("a").await.holders;
    assert_eq!(
        holders.iter().map(|holder| holder.token).collect::<Vec<_>>(),
        [Some(guard.token())]
    );
    must(scene.subject.drive(guard.renew()).await);
}

/// Whether a waiter still has its first grant if it is polled again this long after it. Meanwhile
/// another client waits, too.
async fn polled_after(span: Duration) -> bool {
    let scene = Scene::new().await;
    let held = must(scene.subject.drive(scene.other.mutex("a").acquire()).await);
    let lock = scene.client.mutex("a").ttl(TTL);
    let mut waits = pin!(lock.acquire());
    scene.until_waiting("a", waits.as_mut()).await;
    let next = tokio::spawn({
        let lock = scene.other.mutex("a");
        async move { must(lock.acquire().await) }
    });
    scene.subject.pass(Duration::from_millis(5)).await;
    drop(held);
    scene.subject.pass(span).await;
    let (guard, is_first) = match poll_once(waits.as_mut()) {
        Poll::Ready(guard) => (must(guard), true),
        Poll::Pending => {
            let before = must(scene.subject.drive(next).await);
            check_holds(&scene, &before).await;
            let token = before.token();
            drop(before);
            let guard = must(scene.subject.drive(waits).await);
            assert!(guard.token() > token, "polled after {span:?}");
            (guard, false)
        }
    };
    check_holds(&scene, &guard).await;
    must(scene.subject.drive(guard.release()).await);
    is_first
}

#[tokio::test]
async fn whenever_it_is_polled_a_waiter_believes_in_no_grant_that_was_given_back() {
    let mut first = 0;
    let spans = (0..2_200_u64).step_by(50).chain(1_460..1_500);
    let spans: Vec<_> = spans.map(Duration::from_millis).collect();
    for span in &spans {
        first += usize::from(polled_after(*span).await);
    }
    assert!(0 < first && first < spans.len(), "the sweep goes across the end: {first}");
}

#[tokio::test]
async fn a_call_that_is_polled_only_after_its_limit_says_that_it_was_busy() {
    let scene = Scene::new().await;
    let guard = must(scene.subject.drive(scene.other.mutex("a").acquire()).await);
    let lock = scene.client.mutex("a").ttl(TTL);
    let mut waits = pin!(lock.acquire_within(TOO_LONG));
    scene.until_waiting("a", waits.as_mut()).await;
    drop(guard);
    scene.subject.pass(2 * TOO_LONG).await;
    let late = scene.subject.drive(waits).await;
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    assert!(scene.is_free("a").await);
}

/// Whether the first name stays held while another one is awaited, granted unseen, and released.
#[tokio::test]
async fn names_that_are_kept_by_a_call_which_is_not_polled_are_given_back() {
    for is_handed_over in [false, true] {
        let scene = Scene::new().await;
        let mut busy = Some(must(scene.subject.drive(scene.other.mutex("b").acquire()).await));
        let lock = scene.client.multi(["a", "b", "c"]).ttl(TTL);
        let mut waits = pin!(lock.acquire());
        scene.until_waiting("b", waits.as_mut()).await;
        assert!(!scene.is_free("a").await);
        if is_handed_over {
            busy = None;
        }
        scene.subject.pass(2 * TTL).await;
        assert!(scene.is_free("a").await);
        drop(busy);
        scene.subject.pass(TOO_LONG).await;
        assert!(scene.is_free("b").await && !scene.told().contains(&"granted"));
        let guard = must(scene.subject.drive(waits).await);
        assert_eq!(guard.tokens().len(), 3);
        for (name, token) in guard.tokens() {
            assert_eq!(scene.status(name.as_str()).await.holders[0].token, Some(token));
        }
        must(guard.ensure_held());
    }
}

#[tokio::test]
async fn a_call_that_is_polled_keeps_its_names_for_as_long_as_it_waits() {
    let scene = Scene::new().await;
    let busy = must(scene.subject.drive(scene.other.mutex("b").acquire()).await);
    let lock = scene.client.multi(["a", "b"]).ttl(Duration::from_secs(1));
    let mut waits = pin!(lock.acquire());
    scene.until_waiting("b", waits.as_mut()).await;
    let holder = scene.status("a").await.holders[0].token;
    let minute = scene.clock.sleep_until(scene.clock.now() + Duration::from_secs(60));
    let waited = scene.subject.drive_within(2 * TTL * 6, select(waits.as_mut(), minute)).await;
    assert!(matches!(waited, Either::Right(_)));
    assert_eq!(scene.status("a").await.holders[0].token, holder, "never let go");
    drop(busy);
    must(must(scene.subject.drive(waits).await).ensure_held());
}
