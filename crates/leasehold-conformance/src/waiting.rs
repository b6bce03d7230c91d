//! Cases of the events of a call that waits, on every store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::event::Event;
use leasehold::{Client, Error, FencingToken, Guard, Lock};

use crate::bench::answered;
use crate::subject::{Subject, must};

const LIMIT: Duration = Duration::from_millis(200);

/// The tokens of the client's own leases for which it waits, as its events report them.
type Own = Arc<Mutex<Vec<FencingToken>>>;

/// A client, and the record of the events that say it waits for itself.
async fn observed(subject: &Subject) -> (Client, Own) {
    let own = Own::default();
    let told = Arc::clone(&own);
    let observe = move |event: &Event<'_>| {
        if let Event::Waiting { own: Some(token), .. } = *event {
            told.lock().unwrap_or_else(PoisonError::into_inner).push(token);
        }
    };
    (subject.observed_client(observe).await, own)
}

/// Waits to the limit, and returns the outcome. The record has the events of this wait alone.
async fn waited(subject: &Subject, lock: &Lock, own: &Own) -> Result<Guard, Error> {
    let told = async || loop {
        own.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match lock.acquire_within(LIMIT).await {
            // A busy machine delayed the answer that names the holder.
            Err(Error::Timeout { holder: None, .. }) if subject.is_real() => {}
            outcome => return outcome,
        }
    };
    subject.drive(answered(subject, told)).await
}

/// Waits to the limit, and returns whether the holder in the error is the same client.
async fn is_in_its_own_way(subject: &Subject, lock: &Lock, holder: &Guard, own: &Own) -> bool {
    match waited(subject, lock, own).await {
        Err(error @ Error::Timeout { own, .. }) => {
            let text = error.to_string();
            assert_eq!(own, text.contains("a task of this client"), "{text}");
            let Error::Timeout { holder: Some(found), .. } = error else { panic!("{text}") };
            assert_eq!(found.id, holder.holder(), "{text}");
            own
        }
        other => panic!("{other:?}"),
    }
}

fn told(own: &Own) -> Vec<FencingToken> {
    own.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A caller that waits for a lease of the same client learns that immediately, and again at the end
/// of the wait.
pub async fn who_waits_for_a_lease_of_the_same_client_is_told_so(subject: &Subject) {
    let ((one, own), (two, others)) = (observed(subject).await, observed(subject).await);
    let name = subject.fresh_name("own/mutex");
    let guard = must(subject.drive(one.mutex(&name).acquire()).await);
    assert!(must(subject.drive(one.mutex(&name).try_acquire()).await).is_none());
    assert_eq!(told(&own), [], "a try does not wait");
    assert!(is_in_its_own_way(subject, &one.mutex(&name), &guard, &own).await);
    assert_eq!(told(&own), [guard.token()], "once");
    assert!(!is_in_its_own_way(subject, &two.mutex(&name), &guard, &others).await);
    must(subject.drive(guard.release()).await);
    if subject.can().shared {
        let name = subject.fresh_name("own/write");
        let reader = must(subject.drive(two.rwlock(&name).read().acquire()).await);
        assert!(is_in_its_own_way(subject, &two.rwlock(&name).write(), &reader, &others).await);
        assert_eq!(told(&others), [reader.token()]);
        must(subject.drive(reader.release()).await);
    }
    if subject.can().permits {
        let name = subject.fresh_name("own/permits");
        let (mine, all) = (one.semaphore(&name, 2), two.semaphore(&name, 2));
        let one_permit = must(subject.drive(mine.permit().acquire()).await);
        let other = must(subject.drive(all.permit().acquire()).await);
        let before = told(&own);
        let waits = subject.drive(mine.permit().acquire_within(LIMIT)).await;
        assert!(matches!(waits, Err(Error::Timeout { own: false, .. })), "{waits:?}");
        assert_eq!(told(&own), before, "the other may let go");
        assert!(is_in_its_own_way(subject, &mine.permits(2), &one_permit, &own).await);
        must(subject.drive(other.release()).await);
        must(subject.drive(one_permit.release()).await);
    }
}

/// A reader that reads again while a writer waits learns that it waits for itself.
pub async fn a_reader_that_comes_again_behind_a_writer_is_told_so(subject: &Subject) {
    if !subject.can().shared || !subject.can().queued {
        return;
    }
    let ((one, own), name) = (observed(subject).await, subject.fresh_name("own/read"));
    let two = subject.client().await;
    let reader = must(subject.drive(one.rwlock(&name).read().acquire()).await);
    let again = must(subject.drive(one.rwlock(&name).read().acquire()).await);
    assert_eq!(told(&own), [], "readers hold together");
    must(subject.drive(again.release()).await);
    let lock = two.rwlock(&name).write();
    let writer = tokio::spawn(async move { lock.acquire().await });
    let waits = async || must(two.admin().inspect(&name).await).waiting == 1;
    subject.until("the writer waits", waits).await;
    assert!(is_in_its_own_way(subject, &one.rwlock(&name).read(), &reader, &own).await);
    assert_eq!(told(&own), [reader.token()]);
    must(subject.drive(reader.release()).await);
    let writer = must(must(subject.drive(writer).await));
    must(subject.drive(writer.release()).await);
}

/// A wait for permits that times out names one holder, and counts the others.
pub async fn of_several_holders_one_is_told_and_the_others_are_counted(subject: &Subject) {
    if !subject.can().permits {
        return;
    }
    let (one, two) = (subject.client().await, subject.client().await);
    let name = subject.fresh_name("several");
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(must(subject.drive(one.semaphore(&name, 3).permit().acquire()).await));
    }
    let permit = two.semaphore(&name, 3).permit();
    match waited(subject, &permit, &Own::default()).await {
        Err(error @ Error::Timeout { others: 2, own: false, .. }) => {
            assert!(error.to_string().ends_with(" and 2 more"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    for guard in guards {
        must(subject.drive(guard.release()).await);
    }
}
