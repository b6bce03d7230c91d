//! Tests of the samples of clocks, and of the reports about outages.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_core::{
    BoxFuture, ClientId, End, FakeClock, HolderId, HolderInfo, Keep, Mode, Now, Request,
    StoreErrorKind,
};

use super::*;
use crate::store::traits::{Capabilities, Inbox};

fn request() -> Request {
    let id = HolderId { client: ClientId(1), attempt: 1 };
    Request::new(id, Mode::Exclusive, HolderInfo::default())
}

/// What no test here asks a store for.
macro_rules! has_no_inbox {
    () => {
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }

        fn inbox(&self, _: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
            Box::pin(ready(Err(StoreError::new(StoreErrorKind::Unsupported, "no inbox"))))
        }
    };
}

fn clocked(store: impl Store) -> ClockedStore {
    let clock = Arc::new(FakeClock::new());
    ClockedStore::new(Box::new(store), clock, Bounds::default(), Observers::default())
}

/// Servers whose clocks are a minute apart. A name of n bytes is on the nth server.
#[derive(Debug)]
struct Shards;

impl Store for Shards {
    has_no_inbox!();

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let (name, reply) = match &operation {
            Operation::On { name, .. } => (name, Reply::NotHeld),
            // Of several servers, only that of the last name answers.
            Operation::Keep(leases) => {
                let mut replies = vec![Reply::Busy { retry_after: Duration::ZERO }; leases.len()];
                *replies.last_mut().unwrap() = Reply::NotHeld;
                (&leases.last().unwrap().0, Reply::Many(replies))
            }
            _ => panic!("{operation:?}"),
        };
        let now_us = self.shard(name) * 60_000_000;
        let now = Now { lease_us: now_us, token_us: now_us };
        Box::pin(ready(Ok(Answer::new(now, reply))))
    }

    fn shard(&self, name: &LockName) -> u64 {
        name.as_str().len() as u64
    }
}

#[tokio::test]
async fn the_time_of_one_shard_is_not_taken_for_that_of_another() {
    let store = clocked(Shards);
    let [first, second] = ["a", "bb"].map(|name| LockName::new(name).unwrap());
    let seen = |name| store.newest(name).map(|sample| sample.lease.server_us);
    store.apply(&first, Action::Look { limit: 0 }).await.unwrap();
    assert_eq!((seen(&first), seen(&second)), (Some(60_000_000), None));
    store.apply(&second, Action::Look { limit: 0 }).await.unwrap();
    assert_eq!((seen(&first), seen(&second)), (Some(60_000_000), Some(120_000_000)));
}

#[tokio::test]
async fn the_time_of_one_shard_is_not_taken_for_that_of_another_that_did_not_answer() {
    let store = clocked(Shards);
    let kept = |name| (LockName::new(name).unwrap(), Keep::new(request(), Duration::from_secs(60)));
    let leases = ["a", "bb"].map(kept);
    store.execute(Operation::Keep(leases.to_vec())).await.unwrap();
    assert_eq!(store.newest(&leases[0].0).map(|sample| sample.lease.server_us), None);
    store.execute(Operation::Keep(leases[1..].to_vec())).await.unwrap();
    let seen = store.newest(&leases[1].0).map(|sample| sample.lease.server_us);
    assert_eq!(seen, Some(120_000_000));
}

/// A store that answers nothing, and reports that each request may have been executed.
#[derive(Debug)]
struct Away;

impl Store for Away {
    has_no_inbox!();

    fn execute(&self, _: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let error = StoreError::new(StoreErrorKind::Timeout, "no answer").maybe_executed();
        Box::pin(ready(Err(error)))
    }
}

#[tokio::test]
async fn a_read_that_is_not_answered_has_done_nothing() {
    let store = clocked(Away);
    let name = LockName::new("a").unwrap();
    let may_have_executed = async |action| {
        let operation = Operation::On { name: name.clone(), action };
        let error = store.execute(operation.clone()).await.unwrap_err();
        let late = store.execute_at(operation, store.now(), Some(store.now())).await.unwrap_err();
        (error.may_have_executed(), late.may_have_executed())
    };
    assert_eq!(may_have_executed(Action::Look { limit: 1 }).await, (false, false));
    let end = Action::End(End::new(request()));
    assert_eq!(may_have_executed(end).await, (true, true));
}

/// Two servers, of which the first is away until the second takes over from it.
#[derive(Debug, Default)]
struct TakenOver {
    has_taken_over: Arc<AtomicBool>,
}

impl Store for TakenOver {
    has_no_inbox!();

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let Operation::On { name, .. } = operation else { panic!("{operation:?}") };
        let error = StoreError::new(StoreErrorKind::Unreachable, "nothing listens there");
        let now = Now { lease_us: 0, token_us: 0 };
        Box::pin(ready(match self.shard(&name) {
            1 => Err(error),
            _ => Ok(Answer::new(now, Reply::NotHeld)),
        }))
    }

    fn shard(&self, name: &LockName) -> u64 {
        match name.as_str().len() {
            1 if self.has_taken_over.load(Ordering::Relaxed) => 3,
            1 => 1,
            _ => 2,
        }
    }
}

#[tokio::test]
async fn an_outage_ends_with_the_answer_of_the_server_that_took_over() {
    let (clock, away) = (FakeClock::new(), Arc::new(Mutex::new(Vec::new())));
    let has_taken_over = Arc::<AtomicBool>::default();
    let store = TakenOver { has_taken_over: Arc::clone(&has_taken_over) };
    let observer = {
        let away = Arc::clone(&away);
        move |event: &Event<'_>| {
            if let Event::RoundTrip { away: Some(span), .. } = event {
                away.lock().push(*span);
            }
        }
    };
    let observers = Observers::new(vec![Box::new(observer)]);
    let shared = Arc::new(clock.clone());
    let store = ClockedStore::new(Box::new(store), shared, Bounds::default(), observers);
    let [lost, other] = ["a", "bb"].map(|name| LockName::new(name).unwrap());
    let ask = async |name| store.apply(name, Action::Look { limit: 0 }).await.map(drop);
    ask(&lost).await.unwrap_err();
    clock.advance(Duration::from_secs(2));
    ask(&lost).await.unwrap_err();
    ask(&other).await.unwrap();
    assert_eq!(*away.lock(), [], "the other server was there all the time");
    has_taken_over.store(true, Ordering::Relaxed);
    ask(&lost).await.unwrap();
    ask(&lost).await.unwrap();
    assert_eq!(*away.lock(), [Duration::from_secs(2)]);
}

/// The warning about a second sample. The first was sent at 10 s, and showed 1,000,000 s. Each
/// request took 100 ms.
fn warning(sent_s: u64, server_s: u64, drift: f64) -> Option<String> {
    let sample = |sent_s: u64, server_s: u64| {
        let sent = Instant::from_origin(Duration::from_secs(sent_s));
        let lease = Sample { sent, server_us: server_s * 1_000_000 };
        ClockSample { lease, received: sent + Duration::from_millis(100), token_us: 0 }
    };
    sample(10, 1_000_000).warning_of_step(sample(sent_s, server_s), drift)
}

#[test]
fn a_clock_that_goes_on_as_time_does_was_not_set() {
    for (sent_s, server_s) in [
        (10, 1_000_000),
        (10, 1_000_001),
        (20, 1_000_010),
        // Both clocks may drift for an hour.
        (3610, 1_003_566),
        (3610, 1_003_634),
    ] {
        assert_eq!(warning(sent_s, server_s, 0.01), None, "{sent_s}, {server_s}");
    }
}

#[test]
fn a_clock_that_was_set_is_reported_with_how_far() {
    for (server_s, how) in
        [(1_000_020, "forward by 9.9s"), (1_000_000, "back by 9.9s"), (999_000, "back by 16m49s")]
    {
        let text = warning(20, server_s, 0.0).unwrap();
        assert!(text.starts_with(&format!("the store's clock was set {how}:")), "{text}");
    }
}
