//! Cases that call the store directly: those that wait for one exclusive lock, and their turn.

use std::time::Duration;

use leasehold::lease::Mode;
use leasehold::store::Store;
use leasehold::store::protocol::{Action, Message, Reply, Times};

use crate::bench::{AFTER_SHORT, Bench, SHORT, granted, next_but_gaps, somebody};
use crate::subject::{Subject, must};

const ALONE: Mode = Mode::Exclusive;

/// Without a queue, an attempt that would have to wait is answered with busy, and leaves nothing
/// behind.
pub async fn without_a_queue_an_attempt_that_would_wait_is_told_so(subject: &Subject) {
    if subject.can().queued {
        return;
    }
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let reply = bench.ask(waiter, ALONE).await;
    assert!(matches!(reply, Reply::Busy { .. }), "{reply:?}");
    bench.release(holder).await;
    let status = bench.status().await;
    assert!(status.holders.is_empty() && status.waiting == 0, "{status:?}");
}

/// Waiters are granted in the order of joining, each by the release of the holder before it.
pub async fn waiters_are_granted_in_the_order_of_joining(subject: &Subject) {
    let Some(bench) = Bench::with_queue(subject) else { return };
    let ids: Vec<_> = (0..6).map(|_| somebody()).collect();
    bench.take(ids[0], ALONE).await;
    for id in &ids[1..] {
        bench.wait(*id, ALONE).await;
    }
    for pair in ids.windows(2) {
        assert!(bench.release(pair[0]).await);
        assert_eq!(bench.holders().await, [pair[1]], "in the same step");
        bench.keep(pair[1]).await;
    }
}

/// A copy of a waiting acquire keeps its place.
pub async fn a_copy_of_a_waiting_acquire_keeps_its_place(subject: &Subject) {
    let Some(bench) = Bench::with_queue(subject) else { return };
    let (first, second) = (somebody(), somebody());
    bench.take(somebody(), ALONE).await;
    bench.wait(first, ALONE).await;
    bench.wait(second, ALONE).await;
    bench.wait(first, ALONE).await;
    let waiters = bench.status().await.waiters;
    assert_eq!(waiters.iter().map(|waiter| waiter.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(bench.wait(second, ALONE).await.ahead, 1);
}

/// A waiter whose place was lost brings it again, and is served before those that came later.
pub async fn a_waiter_that_brings_its_place_does_not_begin_at_the_end(subject: &Subject) {
    let Some(bench) = Bench::with_queue(subject) else { return };
    let (holder, first, second) = (somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let place = bench.wait(first, ALONE).await.sequence;
    bench.wait(second, ALONE).await;
    assert!(bench.release(first).await, "the store has lost it");
    assert_eq!(bench.wait(second, ALONE).await.ahead, 0);
    let again = bench.request(first, ALONE).with_place(Some(place));
    let Reply::Queued(place) = bench.act(Action::Take(again)).await else { panic!() };
    assert_eq!(place.ahead, 0);
    bench.release(holder).await;
    assert_eq!(bench.holders().await, [first]);
}

/// The message of a grant goes to its client and to nobody else.
pub async fn a_grant_is_told_to_its_client_and_to_nobody_else(subject: &Subject) {
    let can = subject.can();
    if !(can.queued && can.wakes) {
        return;
    }
    let (bench, holder, waiter, other) = (Bench::new(subject), somebody(), somebody(), somebody());
    let store = subject.store();
    let mut inbox = must(store.inbox(waiter.client).await);
    let mut others = must(store.inbox(other.client).await);
    bench.take(holder, ALONE).await;
    bench.wait(waiter, ALONE).await;
    let asked = bench.answer(Action::Take(bench.request(other, ALONE))).await;
    let Some(asked) = asked.now else { panic!("a place comes with the time: {asked:?}") };
    let mut before_us = asked.lease_us;
    for (releases, next, inbox) in [(holder, waiter, &mut inbox), (waiter, other, &mut others)] {
        bench.release(releases).await;
        let message = subject.drive(next_but_gaps(&mut **inbox)).await;
        let status = bench.status().await;
        let [held] = &status.holders[..] else { panic!("one holds: {status:?}") };
        let Message::Granted { attempt, token, now_us } = message else { panic!("{message:?}") };
        assert_eq!((held.id, attempt, Some(token)), (next, next.attempt, held.token));
        // A message may say whole milliseconds.
        assert!(now_us + 1_000 >= before_us, "{now_us} is before {before_us}");
        before_us = now_us;
    }
}

/// A hand-over that nobody claims goes to the next, once the claim window is over.
pub async fn a_hand_over_that_nobody_claims_goes_to_the_next(subject: &Subject) {
    let Some(bench) = Bench::with_queue(subject) else { return };
    let (holder, silent, next) = (somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    bench.wait(silent, ALONE).await;
    bench.wait(next, ALONE).await;
    bench.release(holder).await;
    assert_eq!(bench.holders().await, [silent]);
    subject.pass(Duration::from_millis(Times::USUAL.window_ms) + AFTER_SHORT - SHORT).await;
    granted(bench.ask(next, ALONE).await);
    assert_eq!(bench.renew(silent).await, Reply::NotHeld, "its claim comes too late");
    assert_eq!(bench.wait(silent, ALONE).await.ahead, 0, "it joins again");
}

/// A waiter that never asks again is passed over.
pub async fn a_waiter_that_is_frozen_is_passed_over(subject: &Subject) {
    let Some(bench) = Bench::with_queue(subject) else { return };
    let (holder, dead, alive) = (somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    bench.wait(dead, ALONE).await;
    bench.wait(alive, ALONE).await;
    bench.release(holder).await;
    // Each store decides how long a waiter may be silent; 15 s is too long for every store.
    for _ in 0..30 {
        if let Reply::Granted(_) = bench.ask(alive, ALONE).await {
            return;
        }
        subject.pass(Duration::from_millis(500)).await;
    }
    panic!("nobody was passed over");
}

/// A waiter that gives up is gone, and if it was granted, the grant is handed on in the same step.
pub async fn a_waiter_that_gives_up_is_gone_and_its_grant_is_handed_on(subject: &Subject) {
    let Some(bench) = Bench::with_queue(subject) else { return };
    let ids = [somebody(), somebody(), somebody(), somebody()];
    bench.take(ids[0], ALONE).await;
    for id in &ids[1..] {
        bench.wait(*id, ALONE).await;
    }
    assert!(bench.release(ids[1]).await);
    bench.release(ids[0]).await;
    assert_eq!(bench.holders().await, [ids[2]]);
    assert!(bench.release(ids[2]).await);
    assert_eq!(bench.holders().await, [ids[3]]);
}

/// A holder learns from a renewal that somebody waits.
pub async fn a_renewal_tells_whether_somebody_waits(subject: &Subject) {
    let Some(bench) = Bench::with_queue(subject) else { return };
    let id = somebody();
    bench.take(id, ALONE).await;
    assert_eq!(bench.renew(id).await, Reply::Kept { contended: false });
    bench.wait(somebody(), ALONE).await;
    assert_eq!(bench.renew(id).await, Reply::Kept { contended: true });
}
