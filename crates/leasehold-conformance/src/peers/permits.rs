//! Cases of the permits of a semaphore: all are granted, never too many, and all return.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use leasehold::Error;
use leasehold::admin::Status;
use leasehold::lease::Mode;

use crate::bench::{AFTER_SHORT, Bench, somebody};
use crate::subject::{Subject, must};

/// The number of clients that compete for permits, their rounds, and the number of permits.
const CLIENTS: u32 = 6;
const ROUNDS: u32 = 8;
const CAPACITY: u32 = 3;

/// The most permits that a semaphore can have.
const GREATEST: u32 = 2_147_483_646;

/// How many permits are held.
fn taken(status: &Status) -> u32 {
    status.holders.iter().map(|holder| holder.mode.weight()).sum()
}

/// Clients alternately ask for one permit and for all permits. The held permits never exceed the
/// capacity, sometimes all are held, and all clients are served.
///
/// DistributedLock: `TestConcurrencyHandling`, `TestSemaphoreParallelism`. Redisson:
/// `testConcurrencyLoopMax_MultiInstance`, `testConcurrencyMultiPermits`. tokio: `stress_test`,
/// `poll_acquire_many_unavailable`.
pub async fn one_permit_and_all_of_them_are_had_in_turn(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let name = subject.fresh_name("permits");
    let (out, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut workers = Vec::new();
    for client in 0..CLIENTS {
        let semaphore = subject.client().await.semaphore(&name, CAPACITY);
        let (out, most) = (&out, &most);
        workers.push(async move {
            for round in 0..ROUNDS {
                let count = if (client + round) % 3 == 0 { CAPACITY } else { 1 };
                let guard = must(semaphore.permits(count).acquire().await);
                let now = out.fetch_add(count, Ordering::Relaxed) + count;
                assert!(now <= CAPACITY, "{now} are out");
                most.fetch_max(now, Ordering::Relaxed);
                tokio::task::yield_now().await;
                must(guard.ensure_held());
                out.fetch_sub(count, Ordering::Relaxed);
                must(guard.release().await);
            }
        });
    }
    subject.drive(join_all(workers)).await;
    assert_eq!((out.into_inner(), most.into_inner()), (0, CAPACITY));
}

/// The largest semaphore counts as exactly as a small one.
///
/// DistributedLock: `TestHighTicketCount`, `TestDrain`,
/// `TestGetCurrentCountReflectsAcquisitionsAndReleases`. Redisson: `testAvailablePermits`. tokio:
/// `no_panic_at_maxpermits`, `panic_when_exceeds_maxpermits`.
pub async fn the_largest_semaphore_counts_exactly(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let client = subject.client().await;
    let name = subject.fresh_name("permits");
    let semaphore = client.semaphore(&name, GREATEST);
    let scene = async {
        let permit = semaphore.permit();
        let few = join_all((0..40).map(|_| permit.acquire())).await;
        let few: Vec<_> = few.into_iter().map(must).collect();
        assert!(must(semaphore.permits(GREATEST - 39).try_acquire().await).is_none());
        let rest = must(semaphore.permits(GREATEST - 40).try_acquire().await);
        assert!(rest.is_some() && must(semaphore.permit().try_acquire().await).is_none());
        assert_eq!(taken(&must(client.admin().inspect(&name).await)), GREATEST);
        drop(few);
        let refused = client.semaphore(&name, GREATEST + 1).permit().try_acquire().await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    };
    subject.drive(scene).await;
}

/// If a holder goes silent, its permits become free by themselves, and no others do. Its late
/// release frees nothing.
///
/// Redisson: `testExpire`, `testReleaseExpired`, `testTryReleaseManyExpired`,
/// `testReleaseManyNotExistOrExpired` of its expirable permits.
pub async fn permits_of_the_dead_come_back_by_themselves(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let permits = |count| Mode::Permits { count, capacity: 10 };
    let (bench, dead, living, next) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take_briefly(dead, permits(6)).await;
    bench.take(living, permits(3)).await;
    subject.pass(AFTER_SHORT).await;
    assert!(bench.is_busy(permits(8)).await);
    bench.take(next, permits(7)).await;
    let late = bench.release(dead).await;
    assert!(!late);
    assert_eq!(bench.holders().await, [living, next]);
    assert_eq!(taken(&bench.status().await), 10);
}
