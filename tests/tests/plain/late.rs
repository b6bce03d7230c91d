//! A copy of an acquire that arrives after its attempt has ended. The layout has no place for a
//! tombstone, so the copy is granted, to nobody.

use std::time::Duration;

use leasehold_core::{Action, Reply};
use leasehold_testkit::must;

use super::{Shared, id, request};

#[tokio::test]
async fn b3_a_late_copy_of_an_ended_acquire_takes_the_name_for_one_ttl_and_no_longer() {
    let mut shared = Shared::start().await;
    let brief = request(id(1)).with_ttl(Duration::from_millis(100));
    must(shared.act("a", Action::Take(brief.clone())).await);
    shared.release("a", id(1)).await;
    let late = must(shared.act("a", Action::Take(brief)).await);
    assert!(matches!(late, Reply::Granted(_)), "granted to nobody: {late:?}");
    assert!(!shared.they_take("a", "theirs", Duration::from_secs(30)));
    let left_ms: i64 = must(redis::cmd("PTTL").arg("a").query(&mut shared.theirs));
    assert!(left_ms <= 101, "{left_ms}: nobody renews it, so it ends with its ttl");
    while !shared.they_take("a", "theirs", Duration::from_secs(30)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
