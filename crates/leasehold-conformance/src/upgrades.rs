//! Cases in which a reader becomes the writer, or cannot, as a program sees it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use leasehold::lease::Mode;
use leasehold::{Client, Error, Guard, LockName};

use crate::bench::{SHORT, answered};
use crate::subject::{Subject, must};

/// Longer than anything in these cases takes.
const LONG: Duration = Duration::from_secs(60);

/// Two clients of a store that has readers, and a name.
struct Scene<'a> {
    subject: &'a Subject,
    one: Client,
    two: Client,
    name: LockName,
}

impl<'a> Scene<'a> {
    async fn of(subject: &'a Subject) -> Option<Self> {
        if !subject.can().changes_mode {
            return None;
        }
        let (one, two) = (subject.client().await, subject.client().await);
        Some(Self { subject, one, two, name: subject.fresh_name("upgrades") })
    }

    async fn read(&self, client: &Client) -> Guard {
        must(self.subject.drive(client.rwlock(&self.name).read().acquire()).await)
    }

    async fn admits_readers(&self) -> bool {
        let read = self.two.rwlock(&self.name).read();
        let tried = answered(self.subject, async || read.try_acquire().await);
        must(self.subject.drive(tried).await).is_some()
    }

    /// Whether the name has exactly one holder. A dropped guard is released a moment after the
    /// drop.
    async fn has_one_holder(&self) -> bool {
        must(self.one.admin().inspect(&self.name).await).holders.len() == 1
    }

    /// Waits until the store has received a request to upgrade, which keeps new readers out.
    async fn until_somebody_wishes(&self) {
        let read = self.two.rwlock(&self.name).read();
        while must(read.try_acquire().await).is_some() {
            tokio::task::yield_now().await;
        }
    }
}

/// `try_upgrade` returns whether the guard writes. If not, the guard still reads, and no upgrade
/// request is left.
pub async fn an_upgrade_that_is_tried_and_fails_leaves_a_reader_and_no_wish(subject: &Subject) {
    let Some(scene) = Scene::of(subject).await else { return };
    let mut guard = scene.read(&scene.one).await;
    let other = scene.read(&scene.two).await;
    for _ in 0..2 {
        let tried = answered(subject, async || guard.try_upgrade().await);
        assert!(!must(subject.drive(tried).await), "somebody else reads");
        assert_eq!(guard.mode(), Mode::Shared);
        assert!(scene.admits_readers().await);
    }
    let before = guard.token();
    must(subject.drive(other.release()).await);
    subject.until("it is alone", || scene.has_one_holder()).await;
    assert!(must(subject.drive(guard.try_upgrade()).await));
    assert_eq!(guard.mode(), Mode::Exclusive);
    assert!(guard.token() > before);
    assert!(!scene.admits_readers().await);
    assert!(must(subject.drive(guard.try_upgrade()).await), "it is the writer");
    must(subject.drive(guard.downgrade()).await);
    assert!(scene.admits_readers().await);
}

/// An upgrade ends at its limit and names another holder. The guard still reads, and no upgrade
/// request is left.
pub async fn an_upgrade_ends_at_its_limit_and_leaves_a_reader_and_no_wish(subject: &Subject) {
    let Some(scene) = Scene::of(subject).await else { return };
    let mut guard = scene.read(&scene.one).await;
    let other = scene.read(&scene.two).await;
    for limit in [Duration::ZERO, SHORT] {
        match subject.drive(guard.upgrade_within(limit)).await {
            Err(Error::Timeout { name, waited, holder: Some(holder), .. }) => {
                assert_eq!((&name, holder.id), (&scene.name, other.holder()));
                assert!(waited >= limit, "{waited:?}");
            }
            ended => panic!("{ended:?}"),
        }
        must(guard.ensure_held());
        assert_eq!(guard.mode(), Mode::Shared);
        assert!(scene.admits_readers().await);
    }
}

/// An upgrade with a limit succeeds as soon as the last other reader has released.
pub async fn an_upgrade_with_a_limit_writes_once_it_is_alone(subject: &Subject) {
    let Some(scene) = Scene::of(subject).await else { return };
    let mut guard = scene.read(&scene.one).await;
    let other = scene.read(&scene.two).await;
    let leaves = async {
        scene.until_somebody_wishes().await;
        must(other.release().await);
    };
    let (upgraded, ()) = subject.drive(join(guard.upgrade_within(LONG), leaves)).await;
    must(upgraded);
    assert_eq!(guard.mode(), Mode::Exclusive);
    assert!(!scene.admits_readers().await);
}

/// While one reader waits to become the writer, no other can, and `try_upgrade` returns `false`.
pub async fn an_upgrade_that_is_tried_beside_one_that_waits_fails(subject: &Subject) {
    let Some(scene) = Scene::of(subject).await else { return };
    let mut first = scene.read(&scene.one).await;
    let mut second = scene.read(&scene.two).await;
    {
        let mut waits = std::pin::pin!(first.upgrade_within(LONG));
        let tries = async {
            scene.until_somebody_wishes().await;
            assert!(!must(second.try_upgrade().await));
            let refused = second.upgrade_within(LONG).await;
            assert!(matches!(refused, Err(Error::WouldDeadlock { .. })), "{refused:?}");
            must(second.ensure_held());
            must(second.release().await);
        };
        match subject.drive(select(waits.as_mut(), std::pin::pin!(tries))).await {
            Either::Left((upgraded, tries)) => {
                must(upgraded);
                subject.drive(tries).await;
            }
            Either::Right(((), _)) => must(subject.drive(waits).await),
        }
    }
    assert_eq!(first.mode(), Mode::Exclusive);
}

/// An upgradable reader writes when the readers have left, reads again as before, and writes again.
/// Finally it becomes a plain reader.
pub async fn an_upgradable_reader_writes_and_reads_and_writes_again(subject: &Subject) {
    let Some(scene) = Scene::of(subject).await else { return };
    let upgradable = scene.two.rwlock(&scene.name).upgradable_read();
    let lock = scene.one.rwlock(&scene.name).upgradable_read();
    let mut guard = must(subject.drive(lock.acquire()).await);
    let mut other = scene.read(&scene.two).await;
    assert!(must(subject.drive(upgradable.try_acquire()).await).is_none(), "one at a time");
    let refused = subject.drive(other.upgrade()).await;
    assert!(matches!(refused, Err(Error::WouldDeadlock { .. })), "{refused:?}");
    assert!(!must(subject.drive(guard.try_upgrade()).await));
    assert_eq!(guard.mode(), Mode::Upgradable);
    let leaves = async {
        scene.until_somebody_wishes().await;
        must(other.release().await);
    };
    let (upgraded, ()) = subject.drive(join(guard.upgrade(), leaves)).await;
    must(upgraded);
    for _ in 0..2 {
        assert_eq!(guard.mode(), Mode::Exclusive);
        assert!(!scene.admits_readers().await);
        must(subject.drive(guard.downgrade()).await);
        assert_eq!(guard.mode(), Mode::Upgradable);
        assert!(scene.admits_readers().await);
        assert!(must(subject.drive(upgradable.try_acquire()).await).is_none());
        subject.until("it is alone", || scene.has_one_holder()).await;
        must(subject.drive(guard.upgrade()).await);
    }
    must(subject.drive(guard.downgrade()).await);
    must(subject.drive(guard.downgrade()).await);
    assert_eq!(guard.mode(), Mode::Shared);
    must(subject.drive(guard.renew()).await);
    assert!(must(subject.drive(upgradable.try_acquire()).await).is_some());
}

/// A value that an upgradable reader has read is unchanged when it becomes the writer. Many
/// upgradable readers do the same while readers read: none gets a deadlock, and all are served.
pub async fn what_an_upgradable_reader_has_read_is_true_when_it_writes(subject: &Subject) {
    const CLIENTS: u32 = 4;
    const ROUNDS: u32 = 5;
    if !subject.can().changes_mode {
        return;
    }
    let (name, value) = (subject.fresh_name("upgrades"), AtomicU32::new(0));
    let mut workers = Vec::new();
    for _ in 0..CLIENTS {
        let (lock, value) = (subject.client().await.rwlock(&name), &value);
        workers.push(async move {
            for _ in 0..ROUNDS {
                let mut guard = must(lock.upgradable_read().acquire().await);
                let read = value.load(Ordering::Relaxed);
                must(guard.upgrade().await);
                assert_eq!(value.load(Ordering::Relaxed), read, "somebody else has written");
                value.store(read + 1, Ordering::Relaxed);
                must(guard.release().await);
                let reader = must(lock.read().acquire().await);
                assert!(value.load(Ordering::Relaxed) > read);
                must(reader.release().await);
            }
        });
    }
    subject.drive(join_all(workers)).await;
    assert_eq!(value.into_inner(), CLIENTS * ROUNDS);
}
