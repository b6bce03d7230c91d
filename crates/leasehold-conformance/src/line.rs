//! Cases of callers of one client that wait in its own line for a name, on every store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::error::StoreError;
use leasehold::event::Event;
use leasehold::store::Store;
use leasehold::store::protocol::{Action, Answer, BoxFuture, Operation};
use leasehold::{Client, Guard, Lock, LockName, LossReason};
use tokio::task::JoinHandle;

use crate::subject::{SharedStore, Subject, must};

/// A slice that is longer than any test: every lease is passed on.
const ENDLESS: Duration = Duration::from_secs(3_600);

/// A slice that ends immediately: no lease is passed on.
const MOMENT: Duration = Duration::from_nanos(1);

/// How many callers wait in line.
const CALLERS: usize = 5;

/// A store that counts the requests that take or release its locks.
#[derive(Clone, Debug)]
struct Counting {
    store: SharedStore,
    asked: Arc<AtomicU64>,
}

impl Store for Counting {
    crate::passes_on!(store: capabilities, inbox, shard, clock_offset, publish, subscribe);

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        if let Operation::On { action: Action::Take(_) | Action::End(_), .. } = operation {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        self.store.execute(operation)
    }
}

/// A client whose callers wait in its own line.
struct Lined {
    client: Client,
    asked: Arc<AtomicU64>,
    /// How many calls of the client have begun to wait.
    waiting: Arc<AtomicU64>,
}

impl Lined {
    async fn new(subject: &Subject, slice: Duration) -> Self {
        let (asked, waiting) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let store = Counting { store: subject.store(), asked: Arc::clone(&asked) };
        let told = Arc::clone(&waiting);
        let observer = move |event: &Event<'_>| {
            if let Event::Waiting { .. } = event {
                told.fetch_add(1, Ordering::Relaxed);
            }
        };
        let builder = Client::builder().store(store).observer(observer).slice(slice);
        Self { client: subject.built(builder).await, asked, waiting }
    }

    fn lock(&self, name: &LockName) -> Lock {
        self.client.mutex(name)
    }

    /// Starts a call that waits behind all calls that wait already.
    async fn join(&self, subject: &Subject, lock: Lock) -> JoinHandle<leasehold::Result<Guard>> {
        let before = self.waiting.load(Ordering::Relaxed);
        let call = tokio::spawn(async move { lock.acquire().await });
        let waits = || async { self.waiting.load(Ordering::Relaxed) > before };
        subject.until("it waits", waits).await;
        call
    }
}

async fn granted(subject: &Subject, call: JoinHandle<leasehold::Result<Guard>>) -> Guard {
    must(must(subject.drive(call).await))
}

/// A client passes a lease from caller to caller in the order in which they came, without the
/// store. The tokens rise, and stay below the token of the next grant.
pub async fn a_lease_goes_from_caller_to_caller_without_the_store(subject: &Subject) {
    if !subject.can().local_tokens {
        return;
    }
    let (one, two) = (Lined::new(subject, ENDLESS).await, Lined::new(subject, ENDLESS).await);
    let name = subject.fresh_name("line/passed");
    let mut guard = must(subject.drive(one.lock(&name).acquire()).await);
    let mut calls = Vec::new();
    for _ in 0..CALLERS {
        calls.push(one.join(subject, one.lock(&name)).await);
    }
    let (grant, before) = (guard.token(), one.asked.load(Ordering::Relaxed));
    let mut last = grant;
    while !calls.is_empty() {
        assert!(calls.iter().all(|call| !call.is_finished()));
        must(subject.drive(guard.release()).await);
        guard = granted(subject, calls.remove(0)).await;
        must(guard.ensure_held());
        assert!(guard.token() > last && guard.token().micros() == grant.micros());
        last = guard.token();
    }
    assert_eq!(one.asked.load(Ordering::Relaxed), before, "the store was not asked");
    assert!(must(subject.drive(two.lock(&name).try_acquire()).await).is_none());
    must(subject.drive(guard.release()).await);
    let next = must(subject.drive(two.lock(&name).acquire()).await);
    assert!(next.token() > last);
    must(subject.drive(next.release()).await);
}

/// While a caller of the same client holds the name, a try is answered as busy without the store.
pub async fn a_try_in_line_is_busy_without_the_store(subject: &Subject) {
    if !subject.can().local_tokens {
        return;
    }
    let (one, name) = (Lined::new(subject, ENDLESS).await, subject.fresh_name("line/try"));
    let guard = must(subject.drive(one.lock(&name).acquire()).await);
    let before = one.asked.load(Ordering::Relaxed);
    assert!(must(subject.drive(one.lock(&name).try_acquire()).await).is_none());
    assert_eq!(one.asked.load(Ordering::Relaxed), before);
    must(subject.drive(guard.release()).await);
    let guard = must(subject.drive(one.lock(&name).try_acquire()).await);
    drop(guard.map(Guard::release));
}

/// A caller in line gets the lease that it asks for, and not that of the caller before.
pub async fn who_stands_in_line_gets_the_limit_that_it_asks_for(subject: &Subject) {
    let (one, name) = (Lined::new(subject, ENDLESS).await, subject.fresh_name("line/limit"));
    let guard = must(subject.drive(one.lock(&name).acquire()).await);
    let limited = one.lock(&name).max_hold(Duration::from_millis(300));
    let call = one.join(subject, limited).await;
    must(subject.drive(guard.release()).await);
    let guard = granted(subject, call).await;
    assert_eq!(subject.drive(guard.lost()).await, Some(LossReason::HeldTooLong));
    drop(guard);
    let is_free = async || must(one.client.admin().inspect(&name).await).is_free();
    subject.until("nobody holds", is_free).await;
}

/// When slices are over, clients take turns, and so do the callers of each, as they came.
pub async fn clients_take_turns_and_so_do_the_callers_of_each(subject: &Subject) {
    if !subject.can().local_tokens || !subject.can().queued {
        return;
    }
    let clients = [Lined::new(subject, MOMENT).await, Lined::new(subject, MOMENT).await];
    let name = subject.fresh_name("line/turns");
    let mut last = must(subject.drive(clients[0].lock(&name).acquire()).await);
    let mut calls = Vec::new();
    for number in 0..2 * CALLERS {
        let next = &clients[(number + 1) % 2];
        calls.push(next.join(subject, next.lock(&name)).await);
    }
    let waits = async || must(clients[0].client.admin().inspect(&name).await).waiting > 0;
    while !calls.is_empty() {
        assert!(calls.iter().all(|call| !call.is_finished()));
        let token = last.token();
        subject.until("the other client waits at the store", waits).await;
        subject.pass(Duration::from_millis(1)).await;
        must(subject.drive(last.release()).await);
        last = granted(subject, calls.remove(0)).await;
        assert!(last.token().micros() > token.micros(), "the store has granted it");
    }
    must(subject.drive(last.release()).await);
}

/// An operator who revokes the shown token asks the present holder to stop, even before the store
/// knows that holder.
pub async fn a_lease_that_was_passed_on_is_revoked_by_the_token_of_its_grant(subject: &Subject) {
    if !subject.can().local_tokens {
        return;
    }
    let (one, name) = (Lined::new(subject, ENDLESS).await, subject.fresh_name("line/revoked"));
    let guard = must(subject.drive(one.lock(&name).acquire()).await);
    let call = one.join(subject, one.lock(&name)).await;
    must(subject.drive(guard.release()).await);
    let guard = granted(subject, call).await;
    let admin = one.client.admin();
    // If the store learns of the new holder in between, it refuses the old token and shows the new
    // one.
    loop {
        // A fresh grant is shown without its token, until its holder has told the store.
        let shown = must(subject.drive(admin.inspect(&name)).await).holders[0].token;
        let Some(shown) = shown else {
            subject.pass(Duration::from_millis(10)).await;
            continue;
        };
        assert!(shown <= guard.token());
        if must(subject.drive(admin.revoke(&name, shown)).await) {
            break;
        }
    }
    // Without messages, a renewal finds out.
    if !subject.can().wakes {
        assert!(subject.drive(guard.renew()).await.is_err());
    }
    assert_eq!(subject.drive(guard.lost()).await, Some(LossReason::Revoked));
}

/// The caller that keeps a passed lease is shown as its holder. An operator revokes the lease by
/// that caller's token; the token of the caller before revokes nothing.
pub async fn who_keeps_a_lease_that_was_passed_on_is_shown_and_revoked(subject: &Subject) {
    if !subject.can().local_tokens {
        return;
    }
    let (one, name) = (Lined::new(subject, ENDLESS).await, subject.fresh_name("line/shown"));
    let short = must(subject.drive(one.lock(&name).label("alice-short").acquire()).await);
    let former = short.token();
    let lock = one.lock(&name).label("bob-for-hours");
    let call = tokio::spawn(async move { lock.acquire().await });
    let waits = || async { one.waiting.load(Ordering::Relaxed) > 0 };
    subject.until("bob waits", waits).await;
    must(subject.drive(short.release()).await);
    let guard = granted(subject, call).await;
    let admin = one.client.admin();
    let is_shown = || async {
        let status = must(admin.inspect(&name).await);
        let holder = &status.holders[0];
        let label = holder.info.label.as_deref();
        label == Some("bob-for-hours") && holder.token == Some(guard.token())
    };
    subject.until("the store was told", is_shown).await;
    assert!(!must(subject.drive(admin.revoke(&name, former)).await), "alice has let go");
    assert!(must(subject.drive(admin.revoke(&name, guard.token())).await));
    if !subject.can().wakes {
        assert!(subject.drive(guard.renew()).await.is_err());
    }
    assert_eq!(subject.drive(guard.lost()).await, Some(LossReason::Revoked));
}
