//! Who held a name before: of a store that keeps [`KEPT`] past holders of each name.

use std::time::Duration;

use leasehold::admin::{Ending, HolderId, PastHolder};
use leasehold::lease::Mode;
use leasehold::store::protocol::{Action, Reply};

use crate::bench::{AFTER_SHORT, Bench, SHORT, granted, somebody, who};
use crate::subject::Subject;

const ALONE: Mode = Mode::Exclusive;

/// How many past holders the store must keep.
pub const KEPT: u32 = 3;

impl Bench<'_> {
    async fn past_holders(&self) -> Vec<PastHolder> {
        self.status().await.past_holders
    }

    async fn past(&self) -> Vec<(HolderId, Ending)> {
        self.past_holders().await.iter().map(|past| (past.id, past.ending)).collect()
    }
}

/// A store keeps no past holders unless it is asked to.
pub async fn nobody_is_remembered_unless_the_store_is_asked_to(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    bench.release(id).await;
    assert_eq!(bench.past().await, []);
}

/// Who let go is remembered, with all that was known of it.
pub async fn who_let_go_is_remembered(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let token = bench.take(id, ALONE).await.token;
    subject.pass(Duration::from_millis(20)).await;
    assert_eq!(bench.past().await, [], "it holds");
    bench.release(id).await;
    let [past] = &bench.past_holders().await[..] else { panic!("one has let go") };
    assert_eq!((past.id, past.mode, past.token), (id, ALONE, token));
    assert_eq!((past.ending, &past.info), (Ending::Released, &who()));
    assert!(past.held_for >= Duration::from_millis(15), "{past:?}");
    // A late copy, and what is not held, end nothing more.
    bench.release(id).await;
    bench.release(somebody()).await;
    assert_eq!(bench.past().await, [(id, Ending::Released)]);
}

/// A lapsed lease is remembered at once, though nobody has come by, and only once.
pub async fn a_lapsed_lease_is_remembered_at_once_and_once(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take_briefly(id, ALONE).await;
    subject.pass(AFTER_SHORT).await;
    let status = bench.status().await;
    assert!(status.is_free());
    let [past] = &status.past_holders[..] else { panic!("{status:?}") };
    assert_eq!((past.id, past.ending), (id, Ending::Expired));
    assert!(past.held_for <= SHORT + Duration::from_millis(5), "until its deadline: {past:?}");
    bench.take(somebody(), ALONE).await;
    assert_eq!(bench.past().await, [(id, Ending::Expired)]);
}

/// A revoked lease is remembered as that, whether it was taken away or its holder let go.
pub async fn a_revoked_lease_is_remembered_as_that(subject: &Subject) {
    let (bench, asked, forced) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(asked, ALONE).await.token;
    assert_eq!(bench.revoke(asked, token, false).await, Reply::Revoked(true));
    assert_eq!(bench.past().await, [], "until its holder lets go");
    bench.release(asked).await;
    let token = bench.take(forced, ALONE).await.token;
    assert_eq!(bench.revoke(forced, token, true).await, Reply::Revoked(true));
    assert_eq!(bench.past().await, [(forced, Ending::Revoked), (asked, Ending::Revoked)]);
}

/// The newest past holders come first, and no more are kept than the store was asked for.
pub async fn the_newest_past_holders_are_kept_and_come_first(subject: &Subject) {
    let bench = Bench::new(subject);
    let ids: Vec<HolderId> = (0..KEPT + 2).map(|_| somebody()).collect();
    for id in &ids {
        bench.take(*id, ALONE).await;
        subject.pass(Duration::from_millis(2)).await;
        bench.release(*id).await;
    }
    let expected = ids.iter().rev().take(KEPT as usize).map(|id| (*id, Ending::Released));
    assert_eq!(bench.past().await, expected.collect::<Vec<_>>());
}

/// A hand-over leaves who let go behind, and so does the next one.
pub async fn a_hand_over_is_remembered_and_keeps_what_was(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, ids) = (Bench::new(subject), [somebody(), somebody(), somebody()]);
    bench.take(ids[0], ALONE).await;
    bench.wait(ids[1], ALONE).await;
    bench.wait(ids[2], ALONE).await;
    bench.release(ids[0]).await;
    assert_eq!(bench.past().await, [(ids[0], Ending::Released)]);
    assert_eq!(bench.holders().await, [ids[1]]);
    subject.pass(Duration::from_millis(2)).await;
    granted(bench.poll(ids[1]).await);
    bench.release(ids[1]).await;
    let past = [(ids[1], Ending::Released), (ids[0], Ending::Released)];
    assert_eq!((bench.past().await, bench.holders().await), (past.to_vec(), vec![ids[2]]));
}

/// A grant that nobody confirms is remembered as that.
pub async fn a_grant_that_nobody_took_up_is_remembered_as_that(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, holder, silent) = (Bench::new(subject), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let request = bench.request(silent, ALONE).await.with_ttl(SHORT);
    bench.act(Action::Acquire(request)).await;
    bench.release(holder).await;
    subject.pass(AFTER_SHORT).await;
    assert_eq!(bench.past().await, [(silent, Ending::Unclaimed), (holder, Ending::Released)]);
}

/// Whose lease was adopted is remembered, and its adopter holds.
pub async fn who_handed_a_lease_out_is_remembered(subject: &Subject) {
    let (bench, one, other) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(one, ALONE).await.token;
    let adoption = bench.adoption(other, (one, token), ALONE).await;
    granted(bench.act(Action::Adopt(adoption)).await);
    assert_eq!(bench.past().await, [(one, Ending::Adopted)]);
    assert_eq!(bench.holders().await, [other]);
}

/// A name that stays taken after a release is held by nobody: its holder is remembered at once, and
/// the end of the cooldown is no end of a hold.
pub async fn a_cooldown_ends_no_hold(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    bench.act(Action::Release { id, cooldown: SHORT, unanswered: false }).await;
    assert_eq!(bench.past().await, [(id, Ending::Released)]);
    subject.pass(AFTER_SHORT).await;
    bench.take(somebody(), ALONE).await;
    assert_eq!(bench.past().await, [(id, Ending::Released)]);
}

/// Readers and permits are remembered each for itself, and a change of mode ends no hold.
pub async fn readers_and_permits_are_remembered_each_for_itself(subject: &Subject) {
    let can = subject.can();
    if can.shared && can.changes_mode {
        let (bench, one, two) = (Bench::new(subject), somebody(), somebody());
        bench.take(one, Mode::Shared).await;
        bench.take(two, Mode::Shared).await;
        bench.release(one).await;
        granted(bench.change(two, ALONE, 1).await);
        let past = bench.past_holders().await;
        assert_eq!(
            past.iter().map(|past| (past.id, past.mode)).collect::<Vec<_>>(),
            [(one, Mode::Shared)]
        );
    }
    if can.permits {
        let mode = Mode::Permits { count: 2, capacity: 3 };
        let (bench, one) = (Bench::new(subject), somebody());
        bench.take(one, mode).await;
        bench.release(one).await;
        assert_eq!(bench.past_holders().await[0].mode, mode);
    }
}
