//! Cases in which a caller gives up a change of mode, and its last request arrives late.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::{Either, select};
use leasehold::admin::ClientId;
use leasehold::error::StoreError;
use leasehold::lease::Mode;
use leasehold::store::protocol::{Action, Answer, BoxFuture, Operation};
use leasehold::store::{Capabilities, Inbox, Store, Subscription};
use leasehold::{Client, Guard, LockName};

use crate::subject::{SharedStore, Subject, must};

/// A store that delays each request to become a reader until the test lets the requests go.
#[derive(Clone)]
struct HoldsBack {
    inner: SharedStore,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    lets_go: AtomicBool,
    /// How many changes of mode were requested.
    asked: AtomicUsize,
    /// How many requests to become a reader have arrived.
    arrived: AtomicUsize,
}

impl HoldsBack {
    async fn pass(&self, operation: Operation) -> Result<Answer, StoreError> {
        let mode = match &operation {
            Operation::On { action: Action::ChangeMode { mode, .. }, .. } => Some(*mode),
            _ => None,
        };
        self.state.asked.fetch_add(usize::from(mode.is_some()), Ordering::Relaxed);
        let becomes_reader = mode.is_some_and(Mode::is_reader);
        while becomes_reader && !self.state.lets_go.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        let answer = self.inner.execute(operation).await;
        if becomes_reader {
            self.state.arrived.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

impl fmt::Debug for HoldsBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldsBack").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Store for HoldsBack {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.pass(operation))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.inner.inbox(client)
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.publish(name, message)
    }

    fn subscribe(
        &self,
        name: &LockName,
    ) -> BoxFuture<'_, Result<Option<Box<dyn Subscription>>, StoreError>> {
        self.inner.subscribe(name)
    }
}

/// A first client, whose requests to become a reader arrive late, and a second client.
struct Scene<'a> {
    subject: &'a Subject,
    /// The mode in which the first client reads.
    reader: Mode,
    late: Arc<State>,
    one: Client,
    two: Client,
    name: LockName,
}

impl<'a> Scene<'a> {
    /// One scene for each kind of reader that the store has.
    async fn all(subject: &'a Subject) -> Vec<Self> {
        let mut scenes = Vec::new();
        for reader in [Mode::Shared, Mode::Upgradable] {
            if subject.can().changes_mode {
                scenes.push(Self::of(subject, reader).await);
            }
        }
        scenes
    }

    async fn of(subject: &'a Subject, reader: Mode) -> Self {
        let store = HoldsBack { inner: subject.store(), state: Arc::default() };
        let late = Arc::clone(&store.state);
        let (one, two) = (subject.client_of(store).await, subject.client().await);
        Self { subject, reader, late, one, two, name: subject.fresh_name("changes") }
    }

    /// A guard of the first client, in the mode of this scene.
    async fn first_reads(&self) -> Guard {
        let lock = self.one.rwlock(&self.name);
        let lock = match self.reader {
            Mode::Upgradable => lock.upgradable_read(),
            _ => lock.read(),
        };
        must(self.subject.drive(lock.acquire()).await)
    }

    async fn read(&self, client: &Client) -> Guard {
        must(self.subject.drive(client.rwlock(&self.name).read().acquire()).await)
    }

    async fn write(&self, client: &Client) -> Guard {
        must(self.subject.drive(client.rwlock(&self.name).write().acquire()).await)
    }

    /// Whether the second client could read now.
    async fn admits_readers(&self) -> bool {
        let read = self.two.rwlock(&self.name).read();
        must(self.subject.drive(read.try_acquire()).await).is_some()
    }

    /// Asks for the upgrade, and gives up once the request has reached the store.
    async fn wish_in_vain(&self, guard: &mut Guard) {
        let read = self.two.rwlock(&self.name).read();
        let wished = async {
            while must(read.try_acquire().await).is_some() {
                tokio::task::yield_now().await;
            }
        };
        let both = async {
            let (upgrade, wished) = (std::pin::pin!(guard.upgrade()), std::pin::pin!(wished));
            match select(upgrade, wished).await {
                Either::Left((upgraded, _)) => panic!("somebody else reads: {upgraded:?}"),
                Either::Right(((), _)) => {}
            }
        };
        self.subject.drive(both).await;
    }

    /// Lets the delayed requests go, and waits until one has arrived.
    async fn let_go(&self) {
        self.late.lets_go.store(true, Ordering::Relaxed);
        let has_arrived = || async { self.late.arrived.load(Ordering::Relaxed) > 0 };
        self.subject.until("what is late arrives", has_arrived).await;
    }
}

/// If an upgrade was given up, its late withdrawal does not undo the next upgrade.
pub async fn a_wish_that_is_taken_back_late_touches_no_later_upgrade(subject: &Subject) {
    for scene in Scene::all(subject).await {
        let mut guard = scene.first_reads().await;
        let other = scene.read(&scene.two).await;
        scene.wish_in_vain(&mut guard).await;
        assert_eq!(guard.mode(), scene.reader);
        must(subject.drive(other.release()).await);
        must(subject.drive(guard.upgrade()).await);
        scene.let_go().await;
        assert!(!scene.admits_readers().await, "{guard:?}");
        must(subject.drive(guard.renew()).await);
        assert_eq!(guard.mode(), Mode::Exclusive);
    }
}

/// The upgrade of a writer sends nothing, so there is nothing to give up.
pub async fn a_writer_that_gives_up_an_upgrade_stays_the_writer(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let scene = Scene::of(subject, Mode::Shared).await;
    let mut guard = scene.write(&scene.one).await;
    {
        let upgrade = std::pin::pin!(guard.upgrade());
        drop(select(upgrade, std::pin::pin!(async {})).await);
    }
    must(subject.drive(guard.renew()).await);
    assert_eq!(scene.late.asked.load(Ordering::Relaxed), 0);
    assert!(!scene.admits_readers().await, "{guard:?}");
}

/// A guard is a reader before its downgrade is sent; the keeper completes an abandoned downgrade.
pub async fn a_downgrade_that_is_given_up_leaves_a_reader(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let scene = Scene::of(subject, Mode::Shared).await;
    let mut guard = scene.write(&scene.one).await;
    {
        let waits = async {
            while scene.late.asked.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        let (downgrade, waits) = (std::pin::pin!(guard.downgrade()), std::pin::pin!(waits));
        drop(subject.drive(select(downgrade, waits)).await);
    }
    assert_eq!(guard.mode(), Mode::Shared, "before the store has heard of it");
    scene.let_go().await;
    assert!(scene.admits_readers().await, "{guard:?}");
}

/// An upgrade that is granted after it was given up is taken back. A renewal alone does that, and a
/// later upgrade is not affected.
pub async fn an_upgrade_that_is_granted_too_late_is_taken_back(subject: &Subject) {
    for scene in Scene::all(subject).await {
        let mut guard = scene.first_reads().await;
        let other = scene.read(&scene.two).await;
        scene.wish_in_vain(&mut guard).await;
        must(subject.drive(other.release()).await);
        must(subject.drive(guard.renew()).await);
        assert!(scene.admits_readers().await, "the renewal says what is held: {guard:?}");
        let other = scene.read(&scene.two).await;
        scene.let_go().await;
        must(subject.drive(other.release()).await);
        must(subject.drive(guard.upgrade()).await);
        assert!(!scene.admits_readers().await, "{guard:?}");
    }
}
