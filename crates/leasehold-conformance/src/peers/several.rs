//! Cases of several names that are held as one.

use leasehold::LockName;

use crate::subject::{Subject, must};

/// Overlapping sets of names exclude each other, whatever other names are in them.
///
/// bsm/redislock: `TestLock_ObtainMulti`. Redisson: `testMultiThreads`.
pub async fn sets_of_names_that_overlap_exclude_each_other(subject: &Subject) {
    let (one, two) = (subject.client().await, subject.client().await);
    let names = ["a", "b", "c", "d"].map(|what| subject.fresh_name(what));
    let [a, b, c, d] = &names;
    let take = async |client: &leasehold::Client, names: [&LockName; 2]| {
        must(subject.drive(client.multi(names).try_acquire()).await)
    };
    let (ab, cd) = (take(&one, [a, b]).await, take(&one, [c, d]).await);
    let (Some(ab), Some(cd)) = (ab, cd) else { panic!("they have nothing in common") };
    assert!(take(&two, [b, c]).await.is_none());
    must(subject.drive(ab.release()).await);
    let alone = must(subject.drive(two.mutex(a).try_acquire()).await);
    assert!(alone.is_some(), "it was let go with the other one");
    assert!(take(&two, [b, c]).await.is_none(), "one of them is still held");
    must(subject.drive(cd.release()).await);
    let Some(bc) = take(&two, [b, c]).await else { panic!("both are free") };
    let [first, second] = bc.tokens().collect::<Vec<_>>()[..] else { panic!("two names") };
    assert_eq!((first.0, second.0), (b, c));
}
