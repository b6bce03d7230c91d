//! Cases of one holder at a time: waiters that give up, and limits.

use std::time::Duration;

use futures_util::future::join;
use leasehold::lease::Renewal;
use tokio::task::JoinSet;

use crate::bench::SHORT;
use crate::library::{Kind, Pair};
use crate::subject::{Subject, must};

/// The number of waiters that give up at the same time.
const CROWD: u32 = 20;

/// Waiters that give up, at their limit or before it, do not delay the waiters behind them.
///
/// Redisson's fair lock: `testWaitTimeoutDrift`, `testLockAcquiredTimeoutDrift`,
/// `testFirstThreadDeathTimeoutDrift` and their four `_Descrete`. rueidislock:
/// `TestLocker_WithContext_CancelContext`, `_MissingPeers`, `_Cleanup`. tokio: `aborted_future_2`.
/// etcd: `TestMutexWaitsOnCurrentHolder`.
pub async fn a_crowd_that_gives_up_costs_nobody_its_turn(subject: &Subject) {
    let two = subject.queueing_client().await;
    let pair = Pair { two, ..Pair::of(subject, Kind::Mutex).await };
    let guard = must(subject.drive(pair.by_one().acquire()).await);
    assert!(must(subject.drive(pair.by_two().try_acquire()).await).is_none());
    let (mut patient, mut hasty) = (JoinSet::new(), JoinSet::new());
    let scene = async {
        for _ in 0..CROWD {
            let (wait, hurry) = (pair.by_two(), pair.by_two());
            patient.spawn(async move { drop(wait.acquire().await) });
            hasty.spawn(async move { hurry.acquire_within(SHORT).await });
        }
        pair.until_waiting(CROWD).await;
        let behind = pair.by_two();
        let give_up = async {
            pair.until_waiting(CROWD + 1).await;
            patient.abort_all();
            for ended in hasty.join_all().await {
                assert!(ended.is_err(), "{ended:?}");
            }
            pair.until_waiting(1).await;
            must(guard.ensure_held());
            must(guard.release().await);
        };
        must(join(behind.acquire(), give_up).await.0)
    };
    let next = subject.drive(scene).await;
    must(subject.drive(next.release()).await);
    pair.until_free().await;
}

/// The validity of a lease never exceeds the time for which the store still keeps it.
///
/// Redisson: `testRemainTimeToLive`, `testRemainTimeToLive2`, `testReadWriteTTL`. redis-py:
/// `test_timeout`, `test_float_timeout`. bsm/redislock: `TestClient`. etcd:
/// `TestSessionTTLOptions`.
pub async fn a_lease_is_relied_on_no_longer_than_the_store_keeps_it(subject: &Subject) {
    for pair in Pair::all(subject).await {
        let ttl = Duration::from_millis(9_500);
        let lock = pair.by_one().ttl(ttl).renewal(Renewal::Off);
        let guard = must(subject.drive(lock.acquire()).await);
        let again = must(guard.reenter());
        let status = must(subject.drive(pair.two.admin().inspect(&pair.name)).await);
        let validity = guard.validity();
        let [held] = &status.holders[..] else { panic!("{status:?}") };
        // Some stores count in milliseconds.
        assert!(held.ttl_left <= ttl + Duration::from_millis(2), "{held:?}");
        assert!(validity <= held.ttl_left, "{validity:?} of {held:?}");
        assert!(again.validity() <= validity, "to enter again prolongs nothing");
        drop(again);
        must(subject.drive(guard.release()).await);
        assert!(pair.is_free().await);
    }
}

/// A limit beyond the range of the clock counts as no limit.
///
/// DistributedLock: `TestBadArguments`, which expects a refusal. coreutils:
/// `timeout-large-parameters`.
pub async fn a_limit_beyond_any_clock_is_as_good_as_none(subject: &Subject) {
    for pair in Pair::all(subject).await {
        let (first, second) = (pair.by_one().max_hold(Duration::MAX), pair.by_two());
        let guard = must(subject.drive(first.acquire_within(Duration::MAX)).await);
        let let_go = async {
            pair.until_somebody_waits().await;
            let token = guard.token();
            must(guard.release().await);
            token
        };
        let waiting = second.acquire_within(Duration::MAX);
        let (next, first) = subject.drive(join(waiting, let_go)).await;
        let next = must(next);
        assert!(next.token() > first && next.is_held());
        must(subject.drive(next.release()).await);
    }
}
