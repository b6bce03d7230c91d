//! Quick paths: the steps that take one round trip, and those that are left to general steps.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::protocol::{
    Acquire, Action, Cancelled, ClientId, HolderId, Mode, Operation, RenewLease, Reply,
};
use leasehold::store::{Postgres as Store, Store as _};
use leasehold::{Client, LockName};
use leasehold_testkit::fresh_number;

use crate::Database;

const TTL: Duration = Duration::from_secs(30);

/// A store in which no general step can be done.
async fn without_general_steps() -> Option<(Database, Store)> {
    let database = Database::new()?;
    let store = crate::open(&database.url()).await;
    database.ask("DROP FUNCTION @.open_1; DROP FUNCTION @.close_1");
    Some((database, store))
}

fn attempt(number: u64) -> HolderId {
    HolderId { client: ClientId(fresh_number()), attempt: number }
}

async fn ask(store: &Store, name: &LockName, action: Action) -> Reply {
    store.execute(Operation::On { name: name.clone(), action }).await.unwrap().reply
}

async fn acquire(store: &Store, name: &LockName, id: HolderId) -> Reply {
    ask(store, name, Action::Acquire(Acquire::new(id, Mode::Exclusive, TTL))).await
}

fn release(id: HolderId) -> Action {
    Action::Release { id, cooldown: Duration::ZERO, unanswered: false }
}

#[tokio::test]
async fn a_lease_that_nobody_else_wants_needs_no_general_step() {
    let Some((database, store)) = without_general_steps().await else { return };
    let name = LockName::new("a").unwrap();
    for number in 1..20 {
        let (id, other) = (attempt(number), attempt(number));
        assert!(matches!(acquire(&store, &name, id).await, Reply::Granted(_)));
        let busy = acquire(&store, &name, other).await;
        assert!(matches!(busy, Reply::Busy { retry_after } if retry_after <= TTL), "{busy:?}");
        let lease = RenewLease::new(name.clone(), id, TTL);
        let renewed = store.execute(Operation::Renew(vec![lease])).await.unwrap().reply;
        let Reply::Many(renewed) = renewed else { panic!("{renewed:?}") };
        assert!(matches!(renewed[..], [Reply::Granted(_)]), "{renewed:?}");
        match number % 2 {
            0 => assert_eq!(ask(&store, &name, release(id)).await, Reply::Released),
            _ => {
                let cancel = Action::Cancel { id, unanswered: false };
                let cancelled = ask(&store, &name, cancel).await;
                assert_eq!(cancelled, Reply::Cancelled(Cancelled::Released));
            }
        }
    }
    assert_eq!(database.ask("SELECT max(epoch) FROM @.lock"), "1");
}

#[tokio::test]
async fn renewals_turn_the_page_of_a_long_lease_and_need_no_general_step() {
    let Some((database, store)) = without_general_steps().await else { return };
    let (name, id) = (LockName::new("a").unwrap(), attempt(1));
    assert!(matches!(acquire(&store, &name, id).await, Reply::Granted(_)));
    for _ in 0..200 {
        let lease = RenewLease::new(name.clone(), id, TTL);
        let renewed = store.execute(Operation::Renew(vec![lease])).await.unwrap().reply;
        let Reply::Many(renewed) = renewed else { panic!("{renewed:?}") };
        assert!(matches!(renewed[..], [Reply::Granted(_)]), "{renewed:?}");
    }
    let rows = database.ask("SELECT count(*), max(epoch) > 3 FROM @.lock");
    assert_eq!(rows, "1|t");
}

#[tokio::test]
async fn a_general_step_finds_what_a_quick_path_has_done() {
    let Some(database) = Database::new() else { return };
    let (one, other) = (database.client().await, database.client().await);
    let guard = one.mutex("a").label("first").acquire().await.unwrap();
    assert_eq!(database.ask("SELECT count(holder) FROM @.lock"), "1", "it was a quick path");
    let status = other.admin().inspect("a").await.unwrap();
    assert_eq!(status.holders[0].info.label.as_deref(), Some("first"));
    let waits = other.mutex("a");
    let waiting = tokio::spawn(async move { waits.acquire().await });
    database.until("SELECT count(holder) = 0 FROM @.lock").await; // somebody has joined
    let token = guard.token();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    let again = one.mutex("a").acquire().await.unwrap();
    assert_eq!(database.ask("SELECT count(holder) FROM @.lock"), "1", "nobody waits any more");
    again.release().await.unwrap();
}

#[tokio::test]
async fn callers_of_one_client_who_ask_at_once_share_a_transaction() {
    let Some(database) = Database::new() else { return };
    let client = Client::connect(&format!("{}&connections=1", database.url())).await.unwrap();
    let mutexes = (0..100).map(|number| client.mutex(format!("a/{number}")));
    let guards = join_all(mutexes.map(|mutex| async move { mutex.acquire().await.unwrap() })).await;
    let counted = "SELECT count(*), count(DISTINCT xmin::text) < 100 FROM @.lock";
    assert_eq!(database.ask(counted), "100|t");
    assert!(guards.iter().all(leasehold::Guard::is_held));
    join_all(guards.into_iter().map(|guard| async move { guard.release().await.unwrap() })).await;
    assert_eq!(database.ask("SELECT count(*) FROM @.lock WHERE idle AND fence IS NULL"), "100");
}

#[tokio::test]
async fn who_shares_a_transaction_waits_for_nobody_who_is_busy_with_another_name() {
    let Some(database) = Database::new() else { return };
    let store = crate::open(&database.url()).await;
    let [busy, free] = ["busy", "free"].map(|name| LockName::new(name).unwrap());
    for name in [&busy, &free] {
        let id = attempt(1);
        assert!(matches!(acquire(&store, name, id).await, Reply::Granted(_)));
        assert_eq!(ask(&store, name, release(id)).await, Reply::Released);
    }
    // Another client is in the middle of a step on one of the names.
    let other = database.session().await;
    let begun = format!("BEGIN; SELECT * FROM {}.open_1(ARRAY['busy'])", database.schema);
    other.batch_execute(&begun).await.unwrap();
    let asked = "SELECT (it[2] IS NOT NULL)::text, (it[5] IS NOT NULL)::text FROM \
        @.quick_acquire_1('{busy,free}', '{one,other}', '{one,other}', '{1000,1000}', \
        '{9000000000000000,9000000000000000}', '{1,1}', '', true, '20s') AS it";
    assert_eq!(database.ask(asked), "false|true");
}

#[tokio::test]
async fn what_a_general_step_has_granted_is_released_without_asking_a_quick_path() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let guard = client.rwlock("a").read().acquire().await.unwrap();
    database.ask("DROP FUNCTION @.quick_end_1");
    guard.release().await.unwrap();
}
