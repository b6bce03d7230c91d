//! Cases of the last run that has succeeded under a name.

use std::time::Duration;

use leasehold::admin::{HoldState, HolderId, LastHolder};
use leasehold::lease::Mode;
use leasehold::store::protocol::{Action, Reply};

use crate::bench::{AFTER_SHORT, Bench, LONG, SHORT, somebody, who};
use crate::subject::Subject;

const ALONE: Mode = Mode::Exclusive;

/// How often a run is tried to begin at most.
const TRIES: u32 = 100;

/// A span that is over only long after the test.
const DAY: Duration = Duration::from_hours(24);

impl Bench<'_> {
    /// Waits until the last run is that of `id`: a node of a quorum may be late.
    async fn await_last(&self, id: HolderId) -> LastHolder {
        let is_told = async || self.status().await.last_holder.is_some_and(|last| last.id == id);
        self.subject.until("the last run is told", is_told).await;
        self.status().await.last_holder.unwrap_or_else(|| panic!("it was told a moment ago"))
    }

    /// Takes the name, unless a run has succeeded that began less than `span` ago.
    async fn take_once_per(&self, id: HolderId, span: Duration) -> Reply {
        let take = self.request(id, ALONE).with_once_per(Some(span));
        self.act(Action::Take(take)).await
    }

    /// Begins a run, which nothing is in the way of. On a store without a queue, the end of the run
    /// before may still be on its way to a node.
    async fn begin(&self) -> HolderId {
        for _ in 0..TRIES {
            let id = somebody();
            match self.take_once_per(id, DAY).await {
                Reply::Granted(_) => return id,
                Reply::Busy { .. } if !self.subject.can().queued => self.subject.pass(SHORT).await,
                reply => panic!("it did not succeed: {reply:?}"),
            }
        }
        panic!("it never begins")
    }
}

fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Granted(_))
}

/// A run that has succeeded is enough for its span, also for those that wait for its end. Nobody
/// else is held up by it.
pub async fn a_run_that_succeeded_is_enough_for_its_span(subject: &Subject) {
    let (bench, id, other) = (Bench::new(subject), somebody(), somebody());
    bench.take(other, ALONE).await;
    bench.release(other).await;
    assert_eq!(bench.status().await.last_holder, None, "it did not say so");
    if !subject.can().recorded_tokens {
        return;
    }
    let granted = bench.take_once_per(id, DAY).await;
    let Reply::Granted(grant) = granted else { panic!("nothing was done: {granted:?}") };
    let waits = somebody();
    let is_queued = matches!(bench.take_once_per(waits, DAY).await, Reply::Queued(_));
    assert!(bench.end(bench.ending(id).with_done(2 * DAY)).await);
    let last = bench.await_last(id).await;
    assert_eq!(last.info, who());
    // Nodes of a quorum may have another token than most of them.
    assert!(last.token == grant.token || !subject.can().queued, "{:?}", last.token);
    // A store without a queue may have ended the attempt that it refused.
    let waits = if is_queued { waits } else { somebody() };
    let reply = bench.take_once_per(waits, DAY).await;
    let Reply::Done { last, next_in } = reply else { panic!("it was done: {reply:?}") };
    assert_eq!(last.id, id);
    assert!(next_in <= DAY && next_in > DAY / 2, "{next_in:?}");
    assert_eq!(bench.release(waits).await, is_queued, "the name was handed over to it");
    // A late copy of the release, and a release without a hold, change nothing.
    for ended in [id, somebody()] {
        bench.end(bench.ending(ended).with_done(LONG)).await;
    }
    bench.await_last(id).await;
    subject.pass(AFTER_SHORT).await;
    let again = somebody();
    assert!(is_granted(&bench.take_once_per(again, SHORT).await), "its own span is over");
    bench.release(again).await;
    bench.take(other, ALONE).await;
    bench.release(other).await;
    bench.await_last(id).await;
}

/// A run that failed, was revoked or is over leaves nothing: the next one begins at once.
pub async fn a_run_that_did_not_succeed_leaves_nothing(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, lapsed) = (Bench::new(subject), somebody());
    bench.take_briefly(lapsed, ALONE).await;
    subject.pass(AFTER_SHORT).await;
    bench.end(bench.ending(lapsed).with_done(LONG)).await;
    let failed = bench.begin().await;
    bench.release(failed).await;
    for force in [false, true] {
        let revoked = bench.begin().await;
        assert!(bench.revoke(revoked, force).await);
        bench.end(bench.ending(revoked).with_done(LONG)).await;
    }
    assert_eq!(bench.status().await.last_holder, None);
    bench.begin().await;
}

/// Nobody holds a name in cooldown, and it stays taken: who held it is shown until the cooldown is
/// over, or until an operator ends it.
pub async fn a_cooldown_ends_no_hold(subject: &Subject) {
    let (kept, id) = (Bench::new(subject), somebody());
    kept.take(id, ALONE).await;
    assert!(kept.end(kept.ending(id).with_cooldown(LONG)).await);
    assert_eq!(kept.renew(id).await, Reply::NotHeld);
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    let cooling = async |id| {
        let holders = bench.status().await.holders;
        holders.iter().any(|it| (it.id, it.state) == (id, HoldState::Cooldown))
    };
    bench.take(id, ALONE).await;
    bench.end(bench.ending(id).with_cooldown(SHORT)).await;
    assert!(cooling(id).await || subject.is_real());
    subject.pass(AFTER_SHORT).await;
    assert!(!cooling(id).await);
    let next = somebody();
    bench.take(next, ALONE).await;
    bench.end(bench.ending(next).with_cooldown(LONG)).await;
    subject.until("it cools down", async || cooling(next).await).await;
    assert!(!bench.revoke(id, false).await, "not that of another");
    assert!(bench.revoke(next, false).await);
    bench.take(somebody(), ALONE).await;
}
