//! Cases that call the store directly: what an operator does and sees.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::HolderId;
use leasehold::lease::Mode;
use leasehold::store::Store;
use leasehold::store::protocol::{Message, Operation, Reply};

use crate::bench::{Bench, LONG, next_but_gaps, somebody, who};
use crate::subject::{Subject, must};

const ALONE: Mode = Mode::Exclusive;

/// A revocation hits the attempt that holds and no other.
pub async fn a_revocation_hits_the_attempt_that_holds_and_no_other(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let mut inbox = must(subject.store().inbox(id.client).await);
    // Some stores listen only for clients that wait for something.
    let other = Bench::new(subject);
    other.take(somebody(), ALONE).await;
    other.wait_if_queued(HolderId { attempt: 2, ..id }, ALONE).await;
    bench.take(id, ALONE).await;
    assert!(!bench.revoke(HolderId { attempt: 2, ..id }, true).await);
    assert!(bench.revoke(id, false).await);
    assert_eq!(bench.renew(id).await, Reply::Revoked);
    assert!(bench.is_busy(ALONE).await, "until its holder lets go");
    if subject.can().wakes {
        let message = subject.drive(next_but_gaps(&mut *inbox)).await;
        assert_eq!(message, Message::Revoked { attempt: 1, forced: false });
    }
    assert!(bench.release(id).await);
}

/// A forced revocation passes the lock immediately to the first waiter.
pub async fn a_forced_revocation_hands_the_lock_on_at_once(subject: &Subject) {
    let (bench, id, waiter) = (Bench::new(subject), somebody(), somebody());
    bench.take(id, ALONE).await;
    bench.wait_if_queued(waiter, ALONE).await;
    assert!(bench.revoke(id, true).await);
    if !subject.can().queued {
        bench.take(waiter, ALONE).await;
    }
    assert_eq!(bench.holders().await, [waiter]);
    assert!(!matches!(bench.renew(id).await, Reply::Kept { .. }));
    if subject.can().recorded_tokens {
        assert_eq!(bench.ask(id, ALONE).await, Reply::Closed, "a late copy");
    }
}

/// An operator sees the holders and the waiters, and since when they hold or wait.
pub async fn an_operator_sees_who_holds_and_who_waits(subject: &Subject) {
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(holder, ALONE).await.token;
    bench.wait_if_queued(waiter, ALONE).await;
    subject.pass(Duration::from_millis(30)).await;
    let status = bench.status().await;
    let [held] = &status.holders[..] else { panic!("{status:?}") };
    assert_eq!((held.id, held.mode, held.token), (holder, ALONE, Some(token)));
    assert!(held.held_for >= Duration::from_millis(20));
    assert!(held.ttl_left > LONG / 2 && held.ttl_left < LONG, "{held:?}");
    assert!(held.held_for < LONG, "a lease that nobody renews has not ended: {held:?}");
    assert_eq!(held.info, who());
    if !subject.can().queued {
        return assert_eq!((status.waiters.len(), status.waiting), (0, 0));
    }
    let [waits] = &status.waiters[..] else { panic!("{status:?}") };
    assert_eq!((waits.id, waits.mode, waits.position), (waiter, ALONE, 1));
    assert!(waits.waited >= Duration::from_millis(20));
    assert_eq!(waits.info, who());
    assert_eq!(status.waiting, 1);
}

/// Names are listed by prefix, and only while in use: of a released name nothing is listed, even
/// if others have waited for it, or an attempt was closed. A walk over the pages ends, and lists
/// every name that is in use during the whole walk.
pub async fn names_are_listed_by_prefix_and_only_while_in_use(subject: &Subject) {
    let bench = Bench::new(subject);
    let named = |last: &str| must(LockName::new(format!("{}/{last}", bench.name)));
    let one = named("*one");
    let mut used: Vec<_> = (0..7).map(|number| named(&number.to_string())).collect();
    used.push(one.clone());
    used.sort();
    let (idle, awaited, closed) = (named("idle"), named("awaited"), named("closed"));
    for name in used.iter().chain([&idle, &awaited, &closed]) {
        let bench = Bench::of(subject, name.clone());
        let (id, waiter) = (somebody(), somebody());
        bench.take(id, ALONE).await;
        if *name == awaited {
            bench.wait_if_queued(waiter, ALONE).await;
        }
        if !used.contains(name) {
            bench.end(bench.ending(id).with_closes(*name == closed)).await;
            bench.release(waiter).await;
        }
    }
    for keys in [3, 1000] {
        assert_eq!(walk(&bench, "", keys).await, used, "{keys} keys at a time");
    }
    assert_eq!(walk(&bench, "*", 2).await, [one], "no pattern, only text");
    assert_eq!(walk(&bench, "none", 2).await, []);
}

/// The names on all pages that begin with the bench's name and `prefix`.
async fn walk(bench: &Bench<'_>, prefix: &str, keys: u32) -> Vec<LockName> {
    let (mut names, mut after) = (BTreeSet::new(), None);
    loop {
        let prefix = format!("{}/{prefix}", bench.name);
        let operation = Operation::List { prefix, after, keys };
        let Reply::Page(page) = bench.execute(operation).await.reply else { panic!() };
        assert!(page.names.len() <= page.scanned as usize, "{page:?}");
        names.extend(page.names);
        after = page.next;
        if after.is_none() {
            return names.into_iter().collect();
        }
    }
}
