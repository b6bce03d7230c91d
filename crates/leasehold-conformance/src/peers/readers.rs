//! Cases of readers together with readers, and before and behind writers.

use futures_util::future::join;
use leasehold::Lock;
use leasehold::lease::Mode;
use tokio::task::JoinSet;

use crate::bench::{AFTER_SHORT, Bench, somebody};
use crate::library::{Kind, Pair};
use crate::subject::{Subject, must};

/// A reader that goes silent keeps a writer out until its own lease ends and no longer. This is so
/// whether it came before or after a living reader.
///
/// Redisson: `testReadLockExpiration`, `testReadLockLeaseTimeout`, `…DiffThreadsRRW`,
/// `testMultiInstanceReadLockZombieCleanup`.
pub async fn a_dead_reader_is_not_kept_by_a_living_one(subject: &Subject) {
    if !subject.can().shared {
        return;
    }
    let [before, after] = [(); 2].map(|()| (Bench::new(subject), somebody()));
    before.0.take_briefly(somebody(), Mode::Shared).await;
    for (bench, living) in [&before, &after] {
        bench.take(*living, Mode::Shared).await;
    }
    after.0.take_briefly(somebody(), Mode::Shared).await;
    subject.pass(AFTER_SHORT).await;
    for (bench, living) in [before, after] {
        let writer = somebody();
        bench.wait_if_queued(writer, Mode::Exclusive).await;
        assert_eq!(bench.holders().await, [living]);
        bench.release(living).await;
        if !subject.can().queued {
            bench.take(writer, Mode::Exclusive).await;
        }
        assert_eq!(bench.holders().await, [writer]);
    }
}

/// When a waiter gives up, the waiters behind it are let in without a release if there is room:
/// readers behind a writer, few permits behind many.
///
/// tokio: `write_read_shared_pending`, `write_read_shared_drop_pending`,
/// `cancel_acquire_releases_permits`. DistributedLock: `TestWriterTrumpsReader`.
pub async fn who_waits_behind_one_that_gives_up_is_let_in(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    async fn scene(pair: &Pair<'_>, [held, blocked, behind]: [Lock; 3]) {
        let guard = must(held.acquire().await);
        let mut entering = JoinSet::new();
        let queued = async {
            pair.until_waiting(1).await;
            assert!(must(behind.try_acquire().await).is_none(), "it would overtake");
            entering.spawn(async move { behind.acquire().await });
            pair.until_waiting(2).await;
        };
        tokio::select! {
            _ = blocked.acquire() => panic!("{:?}: there is no room", pair.name),
            () = queued => {}
        }
        let Some(entered) = entering.join_next().await else { panic!("somebody waits") };
        let entered = must(must(entered));
        must(guard.ensure_held());
        must(entered.ensure_held());
    }
    let (one, two) =
        (Pair::of(subject, Kind::Write).await, Pair::of(subject, Kind::Semaphore).await);
    let others = one.two.rwlock(&one.name);
    let locks = [one.one.rwlock(&one.name).read(), others.write(), others.read()];
    let others = two.two.semaphore(&two.name, 10);
    let held = two.one.semaphore(&two.name, 10).permits(4);
    let permits = [held, others.permits(8), others.permits(6)];
    subject.drive(join(scene(&one, locks), scene(&two, permits))).await;
}
