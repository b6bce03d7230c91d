//! Several names of several nodes at once.

use futures_util::future::join_all;
use leasehold::{Error, Guard, Lock, LockName};
use leasehold_testkit::{Cluster, must};

use super::{LONG, TTL, client, soon, three_alone};

/// Names that different nodes serve, in sorted order.
fn names(cluster: &Cluster) -> [LockName; 2] {
    loop {
        let names = [cluster.fresh_name(0).0, cluster.fresh_name(1).0];
        if names.is_sorted() {
            return names;
        }
    }
}

/// In other places, requests that are ready at the same time may share a call. Here, a call with
/// keys of two slots is refused.
#[tokio::test]
async fn names_of_many_slots_that_are_asked_for_at_once_are_all_granted_and_renewed() {
    let cluster = three_alone();
    let client = client(&cluster).await;
    // Chance decides which requests meet, so they have several occasions.
    for round in 0..8 {
        let name = |number| format!("one of many: {round} {number}");
        let locks: Vec<_> = (0..32).map(|number| client.mutex(name(number)).ttl(LONG)).collect();
        let granted = soon(join_all(locks.iter().map(Lock::try_acquire))).await;
        let guards: Vec<Guard> = granted.into_iter().map(|guard| must(guard).unwrap()).collect();
        let renewed = soon(join_all(guards.iter().map(Guard::renew))).await;
        assert!(renewed.iter().all(Result::is_ok), "{renewed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e8_when_the_second_node_fails_the_first_name_is_given_back() {
    let mut cluster = three_alone();
    let names = names(&cluster);
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    let all = one.multi(&names).ttl(LONG).acquire().await.unwrap();
    assert_eq!(all.tokens().len(), 2);
    all.release().await.unwrap();

    cluster.kill(1).unwrap();
    let refused = one.multi(&names).ttl(LONG).acquire_within(TTL).await;
    assert!(matches!(refused, Err(Error::Store(_) | Error::Timeout { .. })), "{refused:?}");
    let refused = one.multi(&names).ttl(LONG).try_acquire().await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    let free = soon(two.mutex(&names[0]).acquire()).await.expect("nobody holds the first name");
    assert!(free.is_held());
}
