//! The library has only one open poll of an attempt. A message that comes meanwhile makes it poll
//! again right after that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::admin::HolderId;
use leasehold::error::StoreError;
use leasehold::store::{Capabilities, Memory, Store};
use leasehold::time::{Clock, FakeClock};
use leasehold::{Client, Guard, LockName};
use leasehold_core::{Action, Answer, BoxFuture, Operation};
use leasehold_testkit::{SharedStore, Subject, must};
use tokio::task::JoinHandle;

/// How long a slow store takes to answer, as one that waits for replicas does.
const SLOWNESS: Duration = Duration::from_millis(250);

/// A store that executes requests immediately and answers later. It counts the open requests of
/// each attempt.
#[derive(Clone, Debug)]
struct Slow {
    inner: SharedStore,
    clock: FakeClock,
    out: Arc<Mutex<Out>>,
}

#[derive(Debug, Default)]
struct Out {
    now: BTreeMap<HolderId, usize>,
    most: usize,
    polls: usize,
}

impl Out {
    fn begin(&mut self, id: HolderId, is_poll: bool) {
        let now = self.now.entry(id).or_default();
        *now += 1;
        self.most = self.most.max(*now);
        self.polls += usize::from(is_poll);
    }

    fn end(&mut self, id: HolderId) {
        *self.now.entry(id).or_default() -= 1;
    }
}

impl Slow {
    async fn pass(&self, operation: Operation) -> Result<Answer, StoreError> {
        let (id, is_poll) = match &operation {
            Operation::On { action: Action::Take(take), .. } => {
                (take.request.id, take.place.is_some())
            }
            Operation::On { action: Action::Keep(keep), .. } => (keep.request.id, false),
            _ => return self.inner.execute(operation).await,
        };
        self.out.lock().unwrap().begin(id, is_poll);
        let answer = self.inner.execute(operation).await;
        self.clock.sleep_until(self.clock.now() + SLOWNESS).await;
        self.out.lock().unwrap().end(id);
        answer
    }

    fn polls(&self) -> usize {
        self.out.lock().unwrap().polls
    }
}

impl Store for Slow {
    leasehold_testkit::passes_on!(inner: inbox);

    fn capabilities(&self) -> Capabilities {
        let mut can = self.inner.capabilities();
        can.claims_first = true;
        can
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.pass(operation))
    }
}

/// A holder at a fast store, and a waiter at the same store that gets slow answers.
struct Scene {
    subject: Subject,
    slow: Slow,
    holder: Client,
    name: LockName,
    waiting: JoinHandle<Guard>,
}

impl Scene {
    async fn new() -> (Self, Guard) {
        let clock = FakeClock::new();
        let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
        let slow = Slow { inner: subject.store(), clock, out: Arc::default() };
        let (holder, waiter) = (subject.client().await, subject.client_of(slow.clone()).await);
        let name = subject.fresh_name("question");
        let held = must(subject.drive(holder.mutex(&name).acquire()).await);
        let lock = waiter.mutex(&name);
        let waiting = tokio::spawn(async move { must(lock.acquire().await) });
        let scene = Self { subject, slow, holder, name, waiting };
        scene
            .subject
            .until("it waits", || async {
                must(scene.holder.admin().inspect(&scene.name).await).waiting == 1
            })
            .await;
        (scene, held)
    }

    /// Releases the lock while a poll of the waiter is open. Returns how long the waiter takes to
    /// enter.
    async fn let_go(self, held: Guard) -> Duration {
        let clock = self.slow.clock.clone();
        must(self.subject.drive(held.release()).await);
        let released = clock.now();
        drop(must(self.subject.drive(self.waiting).await));
        let most = self.slow.out.lock().unwrap().most;
        assert_eq!(most, 1, "two questions of one attempt were out at once");
        clock.now().saturating_since(released)
    }
}

#[tokio::test]
async fn a_waiter_that_is_told_while_it_is_asked_about_is_asked_about_again_at_once() {
    let (scene, held) = Scene::new().await;
    scene.subject.until("a poll is out", || async { scene.slow.polls() == 1 }).await;
    let took = scene.let_go(held).await;
    assert!(took < SLOWNESS * 3, "the poll that was out, and one more: {took:?}");
}

#[tokio::test]
async fn a_waiter_that_is_told_before_its_acquire_is_answered_is_asked_about_after_that() {
    let (scene, held) = Scene::new().await;
    assert_eq!(scene.slow.polls(), 0, "its acquire has not been answered");
    let took = scene.let_go(held).await;
    assert!(took < SLOWNESS * 3, "the acquire that was out, and a poll: {took:?}");
}
