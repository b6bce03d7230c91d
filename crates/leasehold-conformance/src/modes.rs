//! Cases that call the store directly: readers, writers and permits.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use leasehold::admin::HolderId;
use leasehold::error::StoreErrorKind;
use leasehold::lease::Mode;
use leasehold::store::Store;
use leasehold::store::protocol::{Action, LOCK_CAPACITY, Operation, Refusal, Reply};
use leasehold::{Guard, Lock};

use crate::bench::{Bench, granted, somebody};
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
    let (name, clients) = (subject.fresh_name("readers"), subject.clients(4).await);
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
    for (mode, is_there) in [(Mode::Shared, can.shared), (permits, can.permits)] {
        if !is_there {
            continue;
        }
        let (bench, one, peer, adopter) = (Bench::new(subject), somebody(), somebody(), somebody());
        bench.take(one, mode).await;
        bench.take(peer, mode).await;
        granted(bench.adopt(adopter, one, mode).await);
        assert_eq!(bench.holders().await, [peer, adopter]);
        bench.release(peer).await;
        bench.release(one).await;
        assert_eq!(bench.holders().await, [adopter]);
        assert!(bench.release(adopter).await);
        assert!(bench.holders().await.is_empty());
    }
}

/// A name that is in use as another kind of lock is refused, and stays unchanged. A request for
/// more permits than the capacity is refused, too.
pub async fn a_name_in_use_as_something_else_is_refused(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, Mode::Exclusive).await;
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: LOCK_CAPACITY });
    assert_eq!(bench.ask(somebody(), permits(1, 3)).await, mismatch);
    bench.release(id).await;
    bench.take(somebody(), permits(1, 3)).await;
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 3 });
    assert_eq!(bench.ask(somebody(), Mode::Exclusive).await, mismatch);
    assert_eq!(bench.try_acquire(somebody(), permits(1, 4)).await, mismatch);
    assert_eq!(bench.status().await.waiting, 0);
    let refused = Reply::Refused(Refusal::Weight);
    assert_eq!(Bench::new(subject).ask(somebody(), permits(4, 3)).await, refused);
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
    let permits = [permits(1, 1), permits(2, 3)].map(|mode| (mode, can.permits));
    for (mode, is_there) in [(Mode::Shared, can.shared)].into_iter().chain(permits) {
        if !is_there {
            refused(Action::Take(bench.request(somebody(), mode))).await;
        }
    }
    assert!(bench.holders().await.is_empty());
}
