//! User code that panics, or does anything else, when leasehold calls it; and a keeper that has
//! ended.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use leasehold::admin::ClientId;
use leasehold::blocking::wait;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::event::Event;
use leasehold::store::{Inbox, Memory, Store};
use leasehold::time::FakeClock;
use leasehold::{Client, Error, LossReason};
use leasehold_core::{Answer, BoxFuture, Operation};
use leasehold_testkit::harness::PATIENCE;
use leasehold_testkit::{Subject, must};

const TTL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn an_observer_that_panics_costs_no_lease_and_is_told_once_that_it_did() {
    let clock = FakeClock::new();
    let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
    let (calls, warnings) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (called, warned) = (Arc::clone(&calls), Arc::clone(&warnings));
    let observer = move |event: &Event<'_>| match event {
        Event::Warning { text, .. } => warned.lock().unwrap().push((*text).to_owned()),
        _ => {
            called.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose: {event:?}");
        }
    };
    let builder = Client::builder().store(subject.store()).clock(clock).observer(observer);
    let client = must(builder.build().await);
    let guard = must(subject.drive(client.mutex("a").ttl(TTL).acquire()).await);
    subject.pass(5 * TTL).await;
    must(guard.ensure_held());
    let operator = subject.client().await;
    assert!(must(operator.admin().revoke(guard.name(), guard.token()).await));
    assert_eq!(subject.drive(guard.lost()).await, Some(LossReason::Revoked));
    drop(guard);
    subject.drive(async { must(must(operator.mutex("a").acquire().await).release().await) }).await;
    assert!(calls.load(Ordering::Relaxed) > 10);
    let warnings = warnings.lock().unwrap();
    assert!(matches!(&warnings[..], [text] if text.contains("observer")), "{warnings:?}");
}

#[test]
fn a_callback_that_panics_harms_no_other_and_is_told_of() {
    let (warn, warnings) = mpsc::channel();
    let warn = Mutex::new(warn);
    let observer = move |event: &Event<'_>| {
        if let Event::Warning { text, .. } = event {
            warn.lock().unwrap().send((*text).to_owned()).unwrap();
        }
    };
    let builder = Client::builder().url("memory:").observer(observer);
    let client = must(wait(builder.build()));
    let guard = must(wait(client.mutex("a").acquire()));
    let (tell, told) = mpsc::channel();
    guard.on_lost(|reason| panic!("on purpose: {reason}"));
    guard.on_lost(move |reason| tell.send(reason).unwrap());
    assert!(must(wait(client.admin().revoke(guard.name(), guard.token()))));
    assert_eq!(told.recv_timeout(PATIENCE), Ok(LossReason::Revoked));
    let text = warnings.recv_timeout(PATIENCE).unwrap();
    assert!(text.contains("on_lost"), "{text}");
    drop(guard);
    must(wait(must(wait(client.mutex("a").acquire())).release()));
    must(wait(client.close()));
}

#[test]
fn a_callback_may_let_go_of_another_lease() {
    let client = must(wait(Client::builder().url("memory:").build()));
    let (one, other) =
        (must(wait(client.mutex("a").acquire())), must(wait(client.mutex("b").acquire())));
    let (tell, told) = mpsc::channel();
    one.on_lost(move |reason| {
        drop(other);
        tell.send(reason).unwrap();
    });
    let admin = client.admin();
    assert!(must(wait(admin.revoke(one.name(), one.token()))));
    assert_eq!(told.recv_timeout(PATIENCE), Ok(LossReason::Revoked));
    must(wait(must(wait(client.mutex("b").acquire_within(PATIENCE))).release()));
    assert!(matches!(wait(one.release()), Err(Error::Lost { .. })));
}

/// A store that kills its keeper.
#[derive(Debug)]
struct Deadly(Memory);

impl Store for Deadly {
    leasehold_testkit::passes_on!(0: capabilities);

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        match operation {
            Operation::Keep(_) => panic!("on purpose, in the keeper"),
            other => self.0.execute(other),
        }
    }

    fn inbox(&self, _: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let why = StoreError::new(StoreErrorKind::Unsupported, "no inbox");
        Box::pin(async { Err(why) })
    }
}

#[tokio::test]
async fn a_lease_is_lost_in_time_although_its_keeper_is_no_more() {
    let clock = FakeClock::new();
    let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
    let store = Deadly(Memory::with_clock(clock.clone()));
    let client = must(Client::builder().store(store).clock(clock.clone()).build().await);
    let guard = must(subject.drive(client.mutex("a").ttl(TTL).acquire()).await);
    let (lost, again) = (tokio::spawn(guard.lost()), guard.lost());
    subject.pass(TTL).await;
    assert_eq!(must(subject.drive(lost).await), Some(LossReason::Expired));
    assert_eq!(subject.drive(again).await, Some(LossReason::Expired));
}
