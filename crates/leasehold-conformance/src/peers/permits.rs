//! A case of the permits of a semaphore: all are granted, and never too many.

use futures_util::future::join_all;
use leasehold::Error;
use leasehold::admin::Status;

use crate::subject::{Subject, must};

/// The most permits that a semaphore can have.
const GREATEST: u32 = 2_147_483_646;

/// How many permits are held.
fn taken(status: &Status) -> u32 {
    status.holders.iter().map(|holder| holder.mode.weight()).sum()
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
