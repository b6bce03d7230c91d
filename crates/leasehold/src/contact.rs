//! The way to the store: every answer also tells what time it is there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::model::NOT_AFTER;
use leasehold_core::text::show_duration;
use leasehold_core::{
    Action, Answer, Bounds, Clock, Grant, Instant, LockName, Operation, Sample, StoreError,
};

use crate::event::{Event, Observer};
use crate::store::Store;
use crate::trouble::cut_off;

/// An acquire whose store's time is not known yet may be executed at any time.
const ANY_TIME_US: u64 = (1 << 53) - 1;

/// A store's clock that is off by more than the time a request took, and by this, was set: 1 s, far
/// above what NTP corrects by slewing.
const STEP: Duration = Duration::from_secs(1);

/// A store, the client's clock, and what the one said of its time by the other.
#[derive(Debug)]
pub(crate) struct Contact {
    pub(crate) store: Box<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bounds: Bounds,
    pub(crate) observer: Arc<dyn Observer>,
    /// The newest reply of each shard.
    newest: Mutex<BTreeMap<u64, Heard>>,
}

/// A reply, and when it came.
#[derive(Clone, Copy, Debug)]
struct Heard {
    sample: Sample,
    received: Instant,
}

/// A store's clock did not go on as time did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Back(Duration),
    Forward(Duration),
}

/// An answer and when its request was sent.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) answer: Answer,
    pub(crate) sent: Instant,
}

impl Contact {
    pub(crate) fn new(
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        bounds: Bounds,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let contact = Self { store, clock, bounds, observer, newest: Mutex::default() };
        if let Some(reading) = contact.store.opened_at() {
            let received = contact.now();
            let sent = received.saturating_sub(reading.age);
            let sample = Sample { sent, server_us: reading.lease_us };
            contact.heard_last().insert(0, Heard { sample, received });
        }
        contact
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) async fn execute(&self, operation: Operation) -> Result<Timed, StoreError> {
        let asked = match &operation {
            Operation::List { .. } => None,
            Operation::On { name, .. } => Some(name.clone()),
            Operation::Renew(leases) => leases.first().map(|lease| lease.name.clone()),
        };
        let (sent, is_look) = (self.now(), operation.is_look());
        let answer = self.store.execute(operation).await;
        let answer = answer.map_err(|error| if is_look { error.not_executed() } else { error })?;
        if let Some(name) = asked {
            let sample = Sample { sent, server_us: answer.now.lease_us };
            self.heard(&name, Heard { sample, received: self.now() });
        }
        Ok(Timed { answer, sent })
    }

    /// Keeps a reply if it is the newest, and warns if the store's clock was set since the last.
    fn heard(&self, name: &LockName, heard: Heard) {
        let step = {
            let mut newest = self.heard_last();
            // The shard that has answered: the name may just have moved there.
            let newest = newest.entry(self.store.shard(name)).or_insert(heard);
            if newest.sample.sent > heard.sample.sent {
                return;
            }
            std::mem::replace(newest, heard).step(heard, self.bounds.drift)
        };
        if let Some(step) = step {
            self.observer.observe(&Event::Warning { text: &step.to_string() });
        }
    }

    pub(crate) async fn apply(&self, name: &LockName, action: Action) -> Result<Timed, StoreError> {
        self.execute(Operation::On { name: name.clone(), action }).await
    }

    /// The same, but without an answer by `deadline` its outcome is unknown, unless it only looks.
    pub(crate) async fn execute_until(
        &self,
        operation: Operation,
        deadline: Instant,
    ) -> Result<Timed, StoreError> {
        let is_look = operation.is_look();
        let answer = std::pin::pin!(self.execute(operation));
        match select(answer, self.clock.sleep_until(deadline)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) if is_look => Err(cut_off().not_executed()),
            Either::Right(_) => Err(cut_off()),
        }
    }

    /// Whether the store has ever told what time it is.
    pub(crate) fn is_made(&self) -> bool {
        !self.heard_last().is_empty()
    }

    /// The newest reply of the shard in which a name lives.
    pub(crate) fn newest(&self, name: &LockName) -> Option<Sample> {
        self.heard_last().get(&self.store.shard(name)).map(|heard| heard.sample)
    }

    /// The latest store time at which an acquire that is sent now may be executed. What another
    /// shard said is good enough for that, because tombstones are kept much longer than clocks of
    /// one store differ.
    pub(crate) fn not_after_us(&self, name: &LockName) -> u64 {
        let any = || {
            let newest = self.heard_last();
            newest.values().map(|heard| heard.sample).max_by_key(|sample| sample.sent)
        };
        self.newest(name).or_else(any).map_or(ANY_TIME_US, |newest| {
            let latest = newest.latest_us(self.now(), self.bounds.drift);
            latest.saturating_add(NOT_AFTER.as_micros() as u64).min(ANY_TIME_US)
        })
    }

    fn heard_last(&self) -> MutexGuard<'_, BTreeMap<u64, Heard>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a grant may be relied on that came in this answer.
    pub(crate) fn valid_until(&self, timed: &Timed, grant: Grant, ttl: Duration) -> Instant {
        let left_us = grant.deadline_us.saturating_sub(timed.answer.now.lease_us);
        self.bounds.valid_until(timed.sent, ttl.min(Duration::from_micros(left_us)))
    }
}

impl Heard {
    /// How the store's clock was set between this reply and a newer one: by how much it differs
    /// from the least or the most that can have passed.
    fn step(self, newer: Self, drift: f64) -> Option<Step> {
        let most = newer.received.saturating_since(self.sample.sent).mul_f64(1.0 + drift);
        let least = newer.sample.sent.saturating_since(self.received).mul_f64(1.0 - drift);
        let before = Duration::from_micros(self.sample.server_us);
        let after = Duration::from_micros(newer.sample.server_us);
        let forward = after.saturating_sub(before + most);
        let back = (before + least).saturating_sub(after);
        match (forward > STEP, back > STEP) {
            (true, _) => Some(Step::Forward(forward)),
            (_, true) => Some(Step::Back(back)),
            (false, false) => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = "let NTP slew clocks, not set them";
        match self {
            Self::Back(by) => {
                write!(
                    f,
                    "the store's clock was set back by {}: leases end as much later: {remedy}",
                    show_duration(*by)
                )
            }
            Self::Forward(by) => write!(
                f,
                "the store's clock was set forward by {}: leases ended as much earlier, and \
                 two may hold one lock for a while: {remedy}",
                show_duration(*by)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use leasehold_core::{BoxFuture, ClientId, FakeClock, Now, Reply, StoreErrorKind};

    use super::*;
    use crate::event::Silent;
    use crate::store::{Capabilities, Inbox, Reading};

    const DRIFT: f64 = 0.01;

    /// Servers whose clocks are a minute apart; a name of n bytes lives on the nth.
    #[derive(Debug)]
    struct Shards;

    impl Store for Shards {
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }

        fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
            let Operation::On { name, .. } = operation else { panic!("{operation:?}") };
            let now_us = self.shard(&name) * 60_000_000;
            let now = Now { lease_us: now_us, token_us: now_us };
            Box::pin(ready(Ok(Answer { now, more: false, reply: Reply::Gone })))
        }

        fn inbox(&self, _: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
            let why = "no inbox";
            Box::pin(ready(Err(StoreError::new(StoreErrorKind::Unsupported, why))))
        }

        fn shard(&self, name: &LockName) -> u64 {
            name.as_str().len() as u64
        }
    }

    #[tokio::test]
    async fn what_one_shard_says_of_the_time_is_not_believed_of_another() {
        let (clock, bounds) = (Arc::new(FakeClock::new()), Bounds::default());
        let contact = Contact::new(Box::new(Shards), clock, bounds, Arc::new(Silent));
        let [first, second] = ["a", "bb"].map(|name| LockName::new(name).unwrap());
        let said = |name| contact.newest(name).map(|sample| sample.server_us);
        assert_eq!((contact.is_made(), contact.not_after_us(&first)), (false, ANY_TIME_US));
        contact.apply(&first, Action::Inspect { limit: 0 }).await.unwrap();
        assert_eq!((said(&first), said(&second)), (Some(60_000_000), None));
        assert_eq!(contact.not_after_us(&second), contact.not_after_us(&first));
        contact.apply(&second, Action::Inspect { limit: 0 }).await.unwrap();
        assert_eq!((said(&first), said(&second)), (Some(60_000_000), Some(120_000_000)));
        let later = contact.not_after_us(&second) - contact.not_after_us(&first);
        assert_eq!(later, 60_000_000);
    }

    /// Answers nothing, and says that anything may have been done.
    #[derive(Debug)]
    struct Away;

    impl Store for Away {
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }

        fn execute(&self, _: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
            let error = StoreError::new(StoreErrorKind::Timeout, "no answer").maybe_executed();
            Box::pin(ready(Err(error)))
        }

        fn inbox(&self, _: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
            Box::pin(ready(Err(StoreError::new(StoreErrorKind::Timeout, "no answer"))))
        }

        fn opened_at(&self) -> Option<Reading> {
            Some(Reading { age: Duration::from_secs(1), lease_us: 60_000_000 })
        }
    }

    #[tokio::test]
    async fn a_look_that_is_not_answered_has_done_nothing() {
        let (clock, bounds) = (Arc::new(FakeClock::new()), Bounds::default());
        let contact = Contact::new(Box::new(Away), clock, bounds, Arc::new(Silent));
        let name = LockName::new("a").unwrap();
        let may_have_executed = async |action| {
            let operation = Operation::On { name: name.clone(), action };
            let error = contact.execute(operation.clone()).await.unwrap_err();
            let late = contact.execute_until(operation, contact.now()).await.unwrap_err();
            (error.may_have_executed(), late.may_have_executed())
        };
        assert_eq!(may_have_executed(Action::Inspect { limit: 1 }).await, (false, false));
        let id = leasehold_core::HolderId { client: ClientId(1), attempt: 1 };
        let cancel = Action::Cancel { id, unanswered: false };
        assert_eq!(may_have_executed(cancel).await, (true, true));
    }

    #[tokio::test]
    async fn what_time_it_was_when_the_store_was_opened_is_believed() {
        let clock = FakeClock::new();
        clock.advance(Duration::from_secs(10));
        let contact =
            Contact::new(Box::new(Away), Arc::new(clock), Bounds::default(), Arc::new(Silent));
        let name = LockName::new("a").unwrap();
        assert!(contact.is_made());
        // A second has passed since, and no more than a hundredth more by the store's clock.
        let latest_us = 61_010_000 + NOT_AFTER.as_micros() as u64;
        assert_eq!(contact.not_after_us(&name), latest_us);
    }

    /// A reply to a request of 100 ms, sent after so many seconds, that shows so many seconds.
    fn heard(sent_s: u64, server_s: u64) -> Heard {
        let sent = Instant::from_origin(Duration::from_secs(sent_s));
        let sample = Sample { sent, server_us: server_s * 1_000_000 };
        Heard { sample, received: sent + Duration::from_millis(100) }
    }

    #[test]
    fn a_clock_that_goes_on_as_time_does_was_not_set() {
        let first = heard(10, 1_000_000);
        for (sent_s, server_s) in [(10, 1_000_000), (10, 1_000_001), (20, 1_000_010)] {
            assert_eq!(first.step(heard(sent_s, server_s), DRIFT), None, "{sent_s}, {server_s}");
        }
        // Both clocks may run badly for an hour.
        for server_s in [1_003_566, 1_003_634] {
            assert_eq!(first.step(heard(3610, server_s), DRIFT), None, "{server_s}");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_told_with_how_far() {
        let first = heard(10, 1_000_000);
        let step = |server_s| first.step(heard(20, server_s), 0.0);
        let ms = Duration::from_millis;
        assert_eq!(step(1_000_020), Some(Step::Forward(ms(9_900))));
        assert_eq!(step(1_000_000), Some(Step::Back(ms(9_900))));
        assert_eq!(step(999_000), Some(Step::Back(ms(1_009_900))));
        assert!(Step::Forward(ms(9_900)).to_string().starts_with("the store's clock was set"));
    }
}
