//! What a call costs does not depend on how many hold or wait, counted in instructions of SQLite:
//! each row that is read or written takes some.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_core::Now;

use super::*;
use crate::store::file::writing::Writing;

const FEW: u64 = 20;
const MANY: u64 = 2_000;

/// Not to the instruction: a bounded search for the dead begins elsewhere with each call.
const SLACK: f64 = 1.25;

/// A database with one crowded name, and a count of what SQLite has done.
struct Crowd<'a> {
    writing: &'a Writing<'a>,
    store: &'a File,
    clock: &'a FakeClock,
    done: Arc<AtomicU64>,
}

impl Crowd<'_> {
    fn act(&self, action: &Action) -> Reply {
        let now = Now::of(self.clock);
        let liveness = self.store.executor.liveness();
        self.writing.step(&name("a"), now, action, liveness).unwrap().0.reply
    }

    /// How many instructions an action takes, and how long the row of the record is then.
    fn cost(&self, action: &Action) -> (f64, f64) {
        let before = self.done.load(Ordering::Relaxed);
        self.act(action);
        let done = self.done.load(Ordering::Relaxed) - before;
        let sql = "SELECT length(record) FROM lock WHERE name = 'a'";
        let length =
            self.writing.sql(|sqlite| sqlite.query_row(sql, [], |row| row.get::<_, u32>(0)));
        (done as f64, length.unwrap().into())
    }
}

/// Does something with a crowd, in one transaction.
fn with_crowd<T>(work: impl FnOnce(&Crowd<'_>) -> T) -> T {
    let place = Place::new();
    let store = place.open();
    let location = Location::check(&place.path()).unwrap();
    let mut connection = Connection::open(place.path()).unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    };
    connection.progress_handler(1, Some(count)).unwrap();
    let writing = Writing::new(connection.transaction().unwrap(), &location, "first", RULES);
    work(&Crowd { writing: &writing, store: &store, clock: &place.clock, done })
}

/// That each of some actions costs a large crowd what it costs a small one.
fn assert_same_cost(costs: impl Fn(u64) -> Vec<(f64, f64)>) {
    let (few, many) = (costs(FEW), costs(MANY));
    println!("{FEW}: {few:?}, {MANY}: {many:?}");
    for ((few, short), (many, long)) in few.into_iter().zip(many) {
        assert!(many <= few * SLACK, "{many} instructions instead of {few}");
        assert!(long <= short * SLACK, "a record of {long} bytes instead of {short}");
    }
}

fn id(client: ClientId, attempt: u64) -> HolderId {
    HolderId { client, attempt }
}

#[test]
fn a_call_costs_with_two_thousand_waiters_what_it_costs_with_twenty() {
    assert_same_cost(|waiters| {
        with_crowd(|crowd| {
            crowd.act(&acquire(ALICE, 1, true));
            for attempt in 1..=waiters {
                crowd.act(&acquire(BOB, attempt, true));
            }
            let poll = |attempt| Action::Poll { id: id(BOB, attempt), ttl: TTL };
            let cancel = Action::Cancel { id: id(BOB, waiters / 2), unanswered: false };
            let actions = [
                renew(TTL),
                poll(waiters),
                poll(1),
                acquire(BOB, waiters + 1, true),
                acquire(BOB, waiters + 2, false),
                cancel,
                release(ALICE, 1),
                release(BOB, 1),
                Action::Inspect { limit: 5 },
            ];
            actions.iter().map(|action| crowd.cost(action)).collect()
        })
    });
}

#[test]
fn a_call_costs_with_two_thousand_permits_held_what_it_costs_with_twenty() {
    let permits = |attempt| {
        let mode = Mode::Permits { count: 1, capacity: 5_000 };
        let id = HolderId { client: ALICE, attempt };
        Action::Acquire(Acquire::new(id, mode, TTL).with_wait(true).with_nonce(attempt))
    };
    assert_same_cost(|held| {
        with_crowd(|crowd| {
            for attempt in 1..=held {
                crowd.act(&permits(attempt));
            }
            let mode = Mode::Permits { count: 1, capacity: 5_000 };
            let renew =
                |attempt| Action::Renew { id: id(ALICE, attempt), ttl: TTL, mode, change: 0 };
            let actions = [
                renew(held),
                renew(1),
                permits(held + 1),
                release(ALICE, held / 2),
                release(ALICE, 1),
                Action::Inspect { limit: 5 },
            ];
            actions.iter().map(|action| crowd.cost(action)).collect()
        })
    });
}

#[tokio::test]
async fn who_uses_a_store_for_a_moment_starts_no_thread_and_makes_no_pipe_but_its_own() {
    let place = Place::new();
    drop(place.open()); // who comes first makes what is missing
    let use_it = async |store: &File| {
        let _inbox = store.inbox(ALICE).await.unwrap();
        let acquire = Operation::On { name: name("a"), action: acquire(ALICE, 1, false) };
        store.execute(acquire).await.unwrap();
    };
    let first = place.open();
    use_it(&first).await;
    assert!(first.executor.has_worker(), "it tidies up");
    drop(first);
    let trial = || fs::metadata(place.directory.path().join("locks.db.clients/trial")).unwrap();
    let (before, second) = (trial(), place.open());
    use_it(&second).await;
    assert!(!second.executor.has_worker());
    assert_eq!(trial().created().unwrap(), before.created().unwrap());
}

/// What a command does with a store: opens it, holds a lock for a moment, and leaves.
async fn visit(place: &Place) {
    let store = place.open();
    for action in [acquire(ALICE, 1, false), release(ALICE, 1)] {
        store.execute(Operation::On { name: name("a"), action }).await.unwrap();
    }
}

#[tokio::test]
async fn a_log_that_is_left_again_and_again_stays_short() {
    let place = Place::new();
    for _ in 0..100 {
        visit(&place).await;
    }
    let connection = Connection::open(place.path()).unwrap();
    let noop = "PRAGMA wal_checkpoint(NOOP)";
    let pages: u32 = connection.query_row(noop, [], |row| row.get(1)).unwrap();
    assert!(pages < 100, "{pages} pages are read by whoever comes next");
}
