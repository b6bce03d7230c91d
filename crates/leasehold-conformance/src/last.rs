//! Cases of the last holder of a name, in a store that keeps the record of an unheld name.

use leasehold::admin::{HolderId, LastHolder};
use leasehold::lease::Mode;
use leasehold::store::protocol::{Action, Reply};

use crate::bench::{AFTER_SHORT, Bench, SHORT, somebody, who};
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

/// A holder that has released is remembered with its information, even while another holds.
pub async fn who_let_go_is_remembered(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    assert_eq!(bench.status().await.last_holder, None, "it holds");
    bench.release(id).await;
    if !subject.can().recorded_tokens {
        assert_eq!(bench.status().await.last_holder, None);
        return;
    }
    assert_eq!(bench.await_last(id).await.info, who());
    // A late copy of the release, and a release without a hold, change nothing.
    bench.release(id).await;
    bench.release(somebody()).await;
    bench.take(somebody(), ALONE).await;
    bench.await_last(id).await;
}

/// Of a hold that expires or is revoked nothing is remembered: its job has not come to its end.
pub async fn only_who_let_go_is_remembered(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id, asked, forced) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take(id, ALONE).await;
    bench.release(id).await;
    bench.await_last(id).await;
    bench.take_briefly(somebody(), ALONE).await;
    subject.pass(AFTER_SHORT).await;
    let token = bench.take(asked, ALONE).await.token;
    assert_eq!(bench.revoke(asked, token, false).await, Reply::Revoked(true));
    bench.release(asked).await;
    let token = bench.take(forced, ALONE).await.token;
    assert_eq!(bench.revoke(forced, token, true).await, Reply::Revoked(true));
    bench.await_last(id).await;
}

/// Nobody holds a name in cooldown: its last holder is remembered immediately, and the end of the
/// cooldown does not count as a release.
pub async fn a_cooldown_ends_no_hold(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    bench.act(Action::Release { id, cooldown: SHORT, unanswered: false }).await;
    bench.await_last(id).await;
    subject.pass(AFTER_SHORT).await;
    bench.take(somebody(), ALONE).await;
    bench.await_last(id).await;
}
