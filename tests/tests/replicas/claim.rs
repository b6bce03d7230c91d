//! If a grant may not count, a waiter does not enter a hand-over before its claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::{Capabilities, Memory, Store};
use leasehold::time::FakeClock;
use leasehold_core::{Action, Answer, BoxFuture, Operation};
use leasehold_testkit::{SharedStore, Subject};

/// A store whose claims are refused for as long as a test says so.
#[derive(Debug)]
struct Claims {
    inner: SharedStore,
    come_first: bool,
    are_refused: Arc<AtomicBool>,
}

impl Store for Claims {
    leasehold_testkit::passes_on!(inner: inbox);

    fn capabilities(&self) -> Capabilities {
        let mut can = self.inner.capabilities();
        can.claims_first = self.come_first;
        can
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let is_claim = match &operation {
            Operation::On { action: Action::Take(take), .. } => take.place.is_some(),
            Operation::On { action, .. } => matches!(action, Action::Keep(_)),
            _ => false,
        };
        if is_claim && self.are_refused.load(Ordering::Relaxed) {
            let error = StoreError::new(StoreErrorKind::NotReplicated, "refused by the test");
            return Box::pin(async { Err(error) });
        }
        self.inner.execute(operation)
    }
}

/// Whether a waiter that learns of its grant enters although the store refuses its claim.
async fn enters_unclaimed(come_first: bool) -> bool {
    let clock = FakeClock::new();
    let memory = Memory::with_clock(clock.clone());
    let subject = Subject::fake(memory, clock);
    let are_refused = Arc::new(AtomicBool::new(false));
    let claims =
        Claims { inner: subject.store(), come_first, are_refused: Arc::clone(&are_refused) };
    let (holder, waiter) = (subject.client().await, subject.client_of(claims).await);
    let name = subject.fresh_name("claim");
    let held = subject.drive(holder.mutex(&name).acquire()).await.unwrap();
    let waiting = tokio::spawn({
        let (waiter, name) = (waiter.clone(), name.clone());
        async move { waiter.mutex(&name).acquire().await }
    });
    subject
        .until("somebody waits", || async {
            holder.admin().inspect(&name).await.unwrap().waiting == 1
        })
        .await;
    // By then the waiter has asked once more for messages that it may have missed.
    subject.pass(Duration::from_millis(100)).await;
    are_refused.store(true, Ordering::Relaxed);
    subject.drive(held.release()).await.unwrap();
    subject.pass(Duration::from_millis(500)).await;
    let entered = waiting.is_finished();
    are_refused.store(false, Ordering::Relaxed);
    drop(subject.drive(waiting).await.unwrap().unwrap());
    entered
}

#[tokio::test]
async fn a_hand_over_is_not_entered_before_its_claim_where_that_comes_first() {
    assert!(!enters_unclaimed(true).await);
}

#[tokio::test]
async fn a_hand_over_is_entered_on_its_message_elsewhere() {
    assert!(enters_unclaimed(false).await);
}
