//! Cases of readers together with readers, and before and behind writers.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::{join, join_all};
use leasehold::Lock;
use leasehold::lease::Mode;
use tokio::task::JoinSet;

use crate::bench::{AFTER_SHORT, Bench, somebody};
use crate::library::{Kind, Pair};
use crate::subject::{Subject, must};

/// The number of clients that alternately read and write, and how often each does.
const CLIENTS: u32 = 5;
const ROUNDS: u32 = 8;

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

/// Among many clients that alternately read and write, no reader and writer hold at the same time.
///
/// tokio: `multithreaded`. Redisson: `testConcurrencyLoop_MultiInstance`. etcd:
/// `TestRWMutexMultiNode`.
pub async fn no_reader_meets_a_writer_among_many_clients(subject: &Subject) {
    if !subject.can().shared {
        return;
    }
    let name = subject.fresh_name("readers and writers");
    let (readers, writers, entries) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let mut workers = Vec::new();
    for client in 0..CLIENTS {
        let lock = subject.client().await.rwlock(&name);
        let (readers, writers, entries) = (&readers, &writers, &entries);
        workers.push(async move {
            for round in 0..ROUNDS {
                let reads = (client + round) % 3 > 0;
                let lock = if reads { lock.read() } else { lock.write() };
                let guard = must(lock.acquire().await);
                let mine = if reads { readers } else { writers };
                mine.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                let (reading, writing) =
                    (readers.load(Ordering::Relaxed), writers.load(Ordering::Relaxed));
                assert!(writing == 0 || (writing, reading) == (1, 0), "{reading} and {writing}");
                entries.fetch_add(1, Ordering::Relaxed);
                must(guard.ensure_held());
                mine.fetch_sub(1, Ordering::Relaxed);
                must(guard.release().await);
            }
        });
    }
    subject.drive(join_all(workers)).await;
    assert_eq!(entries.into_inner(), CLIENTS * ROUNDS);
}
