//! Cases that call the store directly: readers, writers and permits.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use leasehold::admin::HolderId;
use leasehold::error::StoreErrorKind;
use leasehold::lease::Mode;
use leasehold::store::Store;
use leasehold::store::protocol::{Action, LOCK_CAPACITY, Operation, Refusal, Reply};
use leasehold::{Guard, Lock};

use crate::bench::{Bench, LONG, granted, somebody};
use crate::subject::{Subject, must};

fn permits(count: u32, capacity: u32) -> Mode {
    Mode::Permits { count, capacity }
}

/// Readers hold together, and a writer holds alone.
pub async fn readers_hold_together_and_a_writer_alone(subject: &Subject) {
    if !subject.can().shared {
        return;
    }
    let (bench, one, two) = (Bench::new(subject), somebody(), somebody());
    bench.take(one, Mode::Shared).await;
    bench.take(two, Mode::Shared).await;
    assert!(bench.is_busy(Mode::Exclusive).await);
    bench.release(one).await;
    assert!(bench.is_busy(Mode::Exclusive).await);
    bench.release(two).await;
    bench.take(somebody(), Mode::Exclusive).await;
    assert!(bench.is_busy(Mode::Shared).await);
}

/// Readers that ask at the same time get different tokens.
pub async fn readers_that_ask_at_once_have_two_tokens(subject: &Subject) {
    if !subject.can().shared {
        return;
    }
    let (name, mut clients) = (subject.fresh_name("readers"), Vec::new());
    for _ in 0..4 {
        clients.push(subject.client().await);
    }
    let locks: Vec<_> = clients.iter().map(|client| client.rwlock(&name).read()).collect();
    let guards = subject.drive(join_all(locks.iter().map(Lock::acquire))).await;
    let guards: Vec<_> = guards.into_iter().map(must).collect();
    let tokens: BTreeSet<_> = guards.iter().map(Guard::token).collect();
    assert_eq!(tokens.len(), guards.len(), "{tokens:?}");
    subject
        .drive(join_all(guards.into_iter().map(Guard::release)))
        .await
        .into_iter()
        .for_each(must);
}

/// Waiting readers are let in together, up to the first writer.
pub async fn waiting_readers_are_let_in_together(subject: &Subject) {
    let can = subject.can();
    if !(can.queued && can.shared) {
        return;
    }
    let (bench, writer) = (Bench::new(subject), somebody());
    bench.take(writer, Mode::Exclusive).await;
    let readers: Vec<HolderId> = (0..3).map(|_| somebody()).collect();
    for reader in &readers {
        bench.wait(*reader, Mode::Shared).await;
    }
    bench.wait(somebody(), Mode::Exclusive).await;
    bench.wait(somebody(), Mode::Shared).await;
    bench.release(writer).await;
    assert_eq!(bench.holders().await, readers);
    assert_eq!(bench.status().await.waiting, 2);
}

/// Permits add up to the capacity, and a remainder stays free until the first waiter fits.
pub async fn permits_add_up_to_the_capacity(subject: &Subject) {
    let can = subject.can();
    if !(can.queued && can.permits) {
        return;
    }
    let (bench, one, two) = (Bench::new(subject), somebody(), somebody());
    bench.take(one, permits(2, 5)).await;
    bench.take(two, permits(2, 5)).await;
    let (large, small) = (somebody(), somebody());
    bench.wait(large, permits(3, 5)).await;
    bench.wait(small, permits(1, 5)).await;
    bench.release(one).await;
    assert_eq!(bench.holders().await, [two, large]);
    bench.release(two).await;
    assert_eq!(bench.holders().await, [large, small]);
}

/// The leases of a reader and of permits are adopted while others hold the same name.
pub async fn a_reader_and_permits_are_adopted_beside_their_peers(subject: &Subject) {
    let (can, permits) = (subject.can(), permits(2, 5));
    for (mode, peers, is_there) in [
        (Mode::Shared, Mode::Shared, can.shared),
        (Mode::Upgradable, Mode::Shared, can.changes_mode),
        (permits, permits, can.permits),
    ] {
        if !is_there {
            continue;
        }
        let (bench, one, peer, adopter) = (Bench::new(subject), somebody(), somebody(), somebody());
        let token = bench.take(one, mode).await.token;
        bench.take(peer, peers).await;
        let adopt = bench.adoption(adopter, (one, token), mode).await;
        granted(bench.act(Action::Adopt(adopt)).await);
        assert_eq!(bench.holders().await, [peer, adopter]);
        bench.release(peer).await;
        bench.release(one).await;
        assert_eq!(bench.holders().await, [adopter]);
        assert_eq!(bench.release(adopter).await, Reply::Released);
        assert!(bench.holders().await.is_empty());
    }
}

/// A name that is in use as another kind of lock is refused, and stays unchanged.
pub async fn a_name_in_use_as_something_else_is_refused(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, Mode::Exclusive).await;
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: LOCK_CAPACITY });
    assert_eq!(bench.acquire(somebody(), permits(1, 3)).await, mismatch);
    bench.release(id).await;
    bench.take(somebody(), permits(1, 3)).await;
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 3 });
    assert_eq!(bench.acquire(somebody(), Mode::Exclusive).await, mismatch);
    assert_eq!(bench.try_acquire(somebody(), permits(1, 4)).await, mismatch);
    assert_eq!(bench.status().await.waiting, 0);
}

/// A request for more permits than the capacity is refused.
pub async fn more_permits_than_there_are_are_refused(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let bench = Bench::new(subject);
    let refused = Reply::Refused(Refusal::Weight);
    assert_eq!(bench.acquire(somebody(), permits(4, 3)).await, refused);
}

/// A store refuses a mode that it does not support, and nothing is held.
pub async fn what_a_store_cannot_do_is_refused(subject: &Subject) {
    let (bench, can) = (Bench::new(subject), subject.can());
    let refused = async |action| {
        let operation = Operation::On { name: bench.name.clone(), action };
        match subject.store().execute(operation).await {
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
                assert!(!error.may_have_executed(), "{error}");
            }
            Ok(answer) => panic!("{answer:?}"),
        }
    };
    for (mode, is_there) in [
        (Mode::Shared, can.shared),
        (Mode::Upgradable, can.changes_mode),
        (permits(2, 3), can.permits),
    ] {
        if !is_there {
            refused(Action::Acquire(bench.request(somebody(), mode).await)).await;
        }
    }
    if !can.permits {
        refused(Action::SetCapacity { capacity: 3 }).await;
    }
    if !can.changes_mode {
        let id = somebody();
        bench.take(id, Mode::Exclusive).await;
        refused(Action::ChangeMode { id, mode: Mode::Shared, change: 1 }).await;
        bench.release(id).await;
    }
    assert!(bench.holders().await.is_empty());
}

/// A lone reader becomes the writer with a new token, and lets readers in again.
pub async fn a_lone_reader_becomes_the_writer_and_lets_readers_in_again(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let (bench, id, other) = (Bench::new(subject), somebody(), somebody());
    let reader = bench.take(id, Mode::Shared).await;
    let writer = granted(bench.change(id, Mode::Exclusive, 1).await);
    assert!(writer.token > reader.token);
    assert!(bench.is_busy(Mode::Shared).await);
    bench.wait_if_queued(other, Mode::Shared).await;
    assert_eq!(granted(bench.change(id, Mode::Shared, 2).await).token, writer.token);
    granted(match subject.can().queued {
        true => bench.poll(other).await,
        false => bench.acquire(other, Mode::Shared).await,
    });
    assert_eq!(bench.status().await.holders.len(), 2);
}

/// If two readers want to write, one learns of the deadlock; when it releases, the other writes.
pub async fn two_readers_that_want_to_write_are_told_of_the_deadlock(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let (bench, one, two) = (Bench::new(subject), somebody(), somebody());
    bench.take(one, Mode::Shared).await;
    bench.take(two, Mode::Shared).await;
    let waits = bench.change(one, Mode::Exclusive, 1).await;
    assert!(matches!(waits, Reply::Busy { .. }), "{waits:?}");
    assert_eq!(bench.change(two, Mode::Exclusive, 1).await, Reply::WouldDeadlock);
    assert!(bench.is_busy(Mode::Shared).await, "nobody is admitted meanwhile");
    bench.release(two).await;
    if !subject.can().queued {
        // On several nodes there is no hand-over: a waiter asks again, and the other reader's
        // release may still be on its way to some nodes.
        let is_writer =
            async || matches!(bench.change(one, Mode::Exclusive, 1).await, Reply::Granted(_));
        subject.until("it writes", is_writer).await;
    }
    let [held] = &bench.status().await.holders[..] else { panic!("one holds") };
    assert_eq!((held.id, held.mode), (one, Mode::Exclusive));
}

/// Changes of mode are taken in the order of their numbers, in whatever order they arrive.
pub async fn changes_of_mode_are_taken_in_the_order_of_their_numbers(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let (bench, id, other) = (Bench::new(subject), somebody(), somebody());
    bench.take(id, Mode::Shared).await;
    bench.take(other, Mode::Shared).await;
    let waits = bench.change(id, Mode::Exclusive, 1).await;
    assert!(matches!(waits, Reply::Busy { .. }), "{waits:?}");
    bench.release(other).await;
    let writer = granted(bench.change(id, Mode::Exclusive, 2).await);
    for (mode, number) in [(Mode::Shared, 1), (Mode::Exclusive, 1), (Mode::Shared, 0)] {
        assert_eq!(bench.change(id, mode, number).await, Reply::Stale, "{mode:?} {number}");
    }
    assert!(bench.is_busy(Mode::Shared).await);
    // On several nodes, a copy may reach a node that the first call did not need, and which has a
    // higher token.
    assert!(granted(bench.change(id, Mode::Exclusive, 2).await).token >= writer.token);
    granted(bench.change(id, Mode::Shared, 2).await);
    let taken_back = bench.change(id, Mode::Exclusive, 2).await;
    assert_eq!(taken_back, Reply::Stale, "a copy of what was taken back");
    granted(bench.acquire(somebody(), Mode::Shared).await);
}

/// A renewal with the mode of a reader makes its holder one. A renewal from before the last change
/// does not change the mode.
pub async fn a_renewal_tells_the_mode_and_a_late_one_does_not(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, Mode::Shared).await;
    granted(bench.change(id, Mode::Exclusive, 1).await);
    let believe = |mode, change| bench.act(Action::Renew { id, ttl: LONG, mode, change });
    granted(believe(Mode::Shared, 0).await);
    assert!(bench.is_busy(Mode::Shared).await, "late, so it only prolongs");
    granted(believe(Mode::Exclusive, 1).await);
    granted(believe(Mode::Shared, 2).await);
    granted(bench.acquire(somebody(), Mode::Shared).await);
}

/// One upgradable reader holds together with readers, but not with another upgradable reader or a
/// writer.
pub async fn one_upgradable_reader_holds_beside_readers(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let (bench, one, two, three) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take(one, Mode::Shared).await;
    bench.take(two, Mode::Upgradable).await;
    bench.take(three, Mode::Shared).await;
    for mode in [Mode::Upgradable, Mode::Exclusive] {
        assert!(bench.is_busy(mode).await, "{mode:?}");
    }
    let holders = bench.status().await.holders;
    let mode_of = |id| holders.iter().find(|holder| holder.id == id).map(|holder| holder.mode);
    let modes = [one, two, three].map(mode_of);
    assert_eq!(modes, [Mode::Shared, Mode::Upgradable, Mode::Shared].map(Some));
    bench.release(two).await;
    let next = somebody();
    bench.take(next, Mode::Upgradable).await;
    for id in [one, three, next] {
        bench.release(id).await;
    }
    bench.take(somebody(), Mode::Exclusive).await;
    assert!(bench.is_busy(Mode::Upgradable).await);
}

/// Upgradable readers wait in the same line as all others.
pub async fn upgradable_readers_wait_their_turn(subject: &Subject) {
    let can = subject.can();
    if !(can.queued && can.changes_mode) {
        return;
    }
    let (bench, first) = (Bench::new(subject), somebody());
    bench.take(first, Mode::Upgradable).await;
    let (second, reader, writer) = (somebody(), somebody(), somebody());
    bench.wait(second, Mode::Upgradable).await;
    bench.wait(reader, Mode::Shared).await;
    bench.wait(writer, Mode::Exclusive).await;
    let last = somebody();
    bench.wait(last, Mode::Upgradable).await;
    let waiting: Vec<Mode> = bench.status().await.waiters.iter().map(|each| each.mode).collect();
    assert_eq!(waiting, [Mode::Upgradable, Mode::Shared, Mode::Exclusive, Mode::Upgradable]);
    bench.release(first).await;
    assert_eq!(bench.holders().await, [second, reader]);
    bench.release(second).await;
    bench.release(reader).await;
    assert_eq!(bench.holders().await, [writer]);
    bench.release(writer).await;
    assert_eq!(bench.holders().await, [last]);
}

/// An upgradable reader becomes the writer when the readers have left; no plain reader becomes the
/// writer.
pub async fn an_upgradable_reader_becomes_the_writer_and_none_beside_it_does(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let (bench, id, reader) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(id, Mode::Upgradable).await.token;
    bench.take(reader, Mode::Shared).await;
    assert_eq!(bench.change(reader, Mode::Exclusive, 1).await, Reply::WouldDeadlock);
    let late = somebody();
    bench.take(late, Mode::Shared).await;
    let waits = bench.change(id, Mode::Exclusive, 1).await;
    assert!(matches!(waits, Reply::Busy { .. }), "{waits:?}");
    assert!(bench.is_busy(Mode::Shared).await, "nobody is admitted meanwhile");
    assert_eq!(bench.change(reader, Mode::Exclusive, 2).await, Reply::WouldDeadlock);
    bench.release(reader).await;
    bench.release(late).await;
    let [held] = &bench.status().await.holders[..] else { panic!("one holds") };
    assert_eq!((held.id, held.mode), (id, Mode::Exclusive));
    assert!(granted(bench.change(id, Mode::Exclusive, 2).await).token > token);
}

/// A writer becomes an upgradable reader, and an upgradable reader a plain one. A withdrawn upgrade
/// or a renewal with that mode does the same. A reader does not become upgradable.
pub async fn an_upgradable_reader_goes_step_by_step_and_only_down_by_itself(subject: &Subject) {
    if !subject.can().changes_mode {
        return;
    }
    let (bench, id, reader) = (Bench::new(subject), somebody(), somebody());
    bench.take(id, Mode::Upgradable).await;
    bench.take(reader, Mode::Shared).await;
    let waits = bench.change(id, Mode::Exclusive, 1).await;
    assert!(matches!(waits, Reply::Busy { .. }), "{waits:?}");
    granted(bench.change(id, Mode::Upgradable, 1).await);
    let late = bench.change(id, Mode::Exclusive, 1).await;
    assert_eq!(late, Reply::Stale, "a copy of what was taken back");
    assert!(bench.is_busy(Mode::Upgradable).await);
    bench.release(reader).await;
    granted(bench.change(id, Mode::Exclusive, 2).await);
    let mode = Mode::Upgradable;
    granted(bench.act(Action::Renew { id, ttl: LONG, mode, change: 3 }).await);
    assert!(bench.is_busy(Mode::Upgradable).await);
    bench.take(somebody(), Mode::Shared).await;
    granted(bench.change(id, Mode::Shared, 4).await);
    let refused = bench.change(id, Mode::Upgradable, 5).await;
    assert_eq!(refused, Reply::Refused(Refusal::Weight));
    bench.take(somebody(), Mode::Upgradable).await;
}
