//! Cases of the last holder of a name, which a store says if the holder has asked for it.

use leasehold::admin::{HoldState, HolderId, LastHolder};
use leasehold::lease::Mode;

use crate::bench::{AFTER_SHORT, Bench, LONG, SHORT, somebody, who};
use crate::subject::Subject;

const ALONE: Mode = Mode::Exclusive;

impl Bench<'_> {
    /// Waits until the last holder is `id`: a node of a quorum may be late.
    async fn await_last(&self, id: HolderId) -> LastHolder {
        let is_told = async || self.status().await.last_holder.is_some_and(|last| last.id == id);
        self.subject.until("the last holder is told", is_told).await;
        self.status().await.last_holder.unwrap_or_else(|| panic!("it was told a moment ago"))
    }
}

/// A holder that asked for it is remembered with its information until the name is taken again, and
/// no other holder is.
pub async fn who_let_go_is_remembered_if_it_asks_for_that(subject: &Subject) {
    let (bench, id, other) = (Bench::new(subject), somebody(), somebody());
    bench.take(other, ALONE).await;
    bench.release(other).await;
    assert_eq!(bench.status().await.last_holder, None, "it did not ask");
    if !subject.can().recorded_tokens {
        return;
    }
    bench.take(id, ALONE).await;
    assert!(bench.end(bench.ending(id).with_remember(LONG)).await);
    assert_eq!(bench.await_last(id).await.info, who());
    // A late copy of the release, and a release without a hold, change nothing.
    bench.end(bench.ending(id).with_remember(LONG)).await;
    bench.end(bench.ending(somebody()).with_remember(LONG)).await;
    bench.await_last(id).await;
    bench.take(other, ALONE).await;
    assert_eq!(bench.holders().await, [other]);
    bench.release(other).await;
    assert_eq!(bench.status().await.last_holder, None);
}

/// Of a hold that is revoked or expires nothing is remembered: its job has not come to its end.
pub async fn only_who_let_go_is_remembered(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, asked, forced) = (Bench::new(subject), somebody(), somebody());
    bench.take_briefly(somebody(), ALONE).await;
    subject.pass(AFTER_SHORT).await;
    assert_eq!(bench.status().await.last_holder, None);
    bench.take(asked, ALONE).await;
    assert!(bench.revoke(asked, false).await);
    bench.end(bench.ending(asked).with_remember(LONG)).await;
    assert_eq!(bench.status().await.last_holder, None);
    bench.take(forced, ALONE).await;
    assert!(bench.revoke(forced, true).await);
    bench.end(bench.ending(forced).with_remember(LONG)).await;
    assert_eq!(bench.status().await.last_holder, None);
}

/// Nobody holds a name in cooldown: its last holder is shown immediately, and is remembered when
/// the cooldown is over.
pub async fn a_cooldown_ends_no_hold(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    bench.end(bench.ending(id).with_cooldown(SHORT).with_remember(LONG)).await;
    let cooling = async || {
        let holders = bench.status().await.holders;
        holders.iter().any(|it| (it.id, it.state) == (id, HoldState::Cooldown))
    };
    assert!(cooling().await || subject.is_real());
    subject.pass(AFTER_SHORT).await;
    bench.await_last(id).await;
    assert!(!cooling().await);
    bench.take(somebody(), ALONE).await;
}
