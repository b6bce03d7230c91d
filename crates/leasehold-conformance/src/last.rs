//! Cases of the last holder of a name, in a store that keeps the record of an unheld name.

use std::time::Duration;

use leasehold::admin::{Ending, HolderId, LastHolder};
use leasehold::lease::Mode;
use leasehold::store::protocol::{Action, Reply};

use crate::bench::{AFTER_SHORT, Bench, SHORT, granted, somebody, who};
use crate::subject::Subject;

const ALONE: Mode = Mode::Exclusive;

impl Bench<'_> {
    /// Waits until the last holder is `id`, with this ending: a node of a quorum may be late.
    async fn await_last(&self, id: HolderId, ending: Ending) -> LastHolder {
        let is_so = |last: &LastHolder| (last.id, last.ending) == (id, ending);
        let is_told = async || self.status().await.last_holder.as_ref().is_some_and(is_so);
        self.subject.until("the last holder is told", is_told).await;
        let last = self.status().await.last_holder.filter(is_so);
        last.unwrap_or_else(|| panic!("it was told a moment ago"))
    }
}

/// A holder that has released is remembered with all its information, even while another holds.
pub async fn who_let_go_is_remembered(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    if !subject.can().recorded_tokens {
        bench.take(id, ALONE).await;
        bench.release(id).await;
        assert_eq!(bench.status().await.last_holder, None);
        return;
    }
    let token = bench.take(id, ALONE).await.token;
    subject.pass(Duration::from_millis(20)).await;
    assert_eq!(bench.status().await.last_holder, None, "it holds");
    bench.release(id).await;
    let last = bench.await_last(id, Ending::Released).await;
    assert_eq!((last.mode, last.token, &last.info), (ALONE, token, &who()));
    assert!(last.held_for >= Duration::from_millis(15), "{last:?}");
    // A late copy of the release, and a release without a hold, change nothing.
    bench.release(id).await;
    bench.release(somebody()).await;
    bench.take(somebody(), ALONE).await;
    bench.await_last(id, Ending::Released).await;
}

/// A lapsed lease is remembered immediately, before any step on its name.
pub async fn a_lapsed_lease_is_remembered_at_once(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take_briefly(id, ALONE).await;
    subject.pass(AFTER_SHORT).await;
    let last = bench.await_last(id, Ending::Expired).await;
    assert!(last.held_for <= SHORT + Duration::from_millis(5), "until its deadline: {last:?}");
    bench.take(somebody(), ALONE).await;
    bench.await_last(id, Ending::Expired).await;
}

/// A revoked lease is remembered as revoked, whether the store ended it or its holder released it.
pub async fn a_revoked_lease_is_remembered_as_that(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, asked, forced) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(asked, ALONE).await.token;
    assert_eq!(bench.revoke(asked, token, false).await, Reply::Revoked(true));
    assert_eq!(bench.status().await.last_holder, None, "until its holder lets go");
    bench.release(asked).await;
    bench.await_last(asked, Ending::Revoked).await;
    let token = bench.take(forced, ALONE).await.token;
    assert_eq!(bench.revoke(forced, token, true).await, Reply::Revoked(true));
    bench.await_last(forced, Ending::Revoked).await;
}

/// After a hand-over the releasing holder is remembered, and a grant that nobody confirms is
/// remembered as unclaimed.
pub async fn a_hand_over_is_remembered(subject: &Subject) {
    if !subject.can().queued || !subject.can().recorded_tokens {
        return;
    }
    let (bench, holder, silent) = (Bench::new(subject), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let request = bench.request(silent, ALONE).await.with_ttl(SHORT);
    bench.act(Action::Acquire(request)).await;
    bench.release(holder).await;
    if !subject.is_real() {
        bench.await_last(holder, Ending::Released).await;
    }
    subject.pass(AFTER_SHORT).await;
    bench.await_last(silent, Ending::Unclaimed).await;
}

/// The holder whose lease was adopted is remembered, and the adopter holds the name.
pub async fn who_handed_a_lease_out_is_remembered(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, one, other) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(one, ALONE).await.token;
    let adoption = bench.adoption(other, (one, token), ALONE).await;
    granted(bench.act(Action::Adopt(adoption)).await);
    bench.await_last(one, Ending::Adopted).await;
    assert_eq!(bench.holders().await, [other]);
}

/// Nobody holds a name in cooldown: its last holder is remembered immediately, and the end of the
/// cooldown does not count as the end of a hold.
pub async fn a_cooldown_ends_no_hold(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    bench.act(Action::Release { id, cooldown: SHORT, unanswered: false }).await;
    bench.await_last(id, Ending::Released).await;
    subject.pass(AFTER_SHORT).await;
    bench.take(somebody(), ALONE).await;
    bench.await_last(id, Ending::Released).await;
}
