//! Requests of callers that ask together share a statement: each gets the same as it would alone.

use std::pin::pin;

use futures_util::future::join_all;
use futures_util::poll;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use leasehold::store::{Postgres as Store, Store as _};
use leasehold_core::{
    Action, Answer, ClientId, End, HolderId, LockName, Operation, Reply, StoreError,
};
use leasehold_testkit::harness::request;

use crate::Database;
use crate::fence::Transaction;

/// How many ask together, each for a separate name.
const CALLERS: u64 = 24;

pub(crate) fn on(name: u64, attempt: u64, ends: bool) -> Operation {
    let take = request(HolderId { client: ClientId(1), attempt });
    let action = if ends { Action::End(End::new(take.request)) } else { Action::Take(take) };
    Operation::On { name: LockName::new(format!("name/{name}")).unwrap(), action }
}

fn is_done(answer: &Result<Answer, StoreError>) -> bool {
    matches!(answer.as_ref().map(|it| &it.reply), Ok(Reply::Granted(_) | Reply::Ended(true)))
}

/// A store with a row for each name.
async fn open(database: &Database) -> Store {
    let store = crate::open(&database.url()).await;
    for ends in [false, true] {
        let all = (0..CALLERS).map(|it| store.execute(on(it, it, ends)));
        assert!(join_all(all).await.iter().all(is_done));
    }
    store
}

#[tokio::test]
async fn who_ask_together_share_a_transaction_and_no_busy_or_fenced_row_delays_another() {
    let Some(database) = Database::new() else { return };
    let store = open(&database).await;
    for (ends, lock) in
        [(false, "UPDATE"), (true, "UPDATE"), (false, "UPDATE"), (true, "KEY SHARE")]
    {
        let session = Transaction::begin(&database, "READ COMMITTED").await;
        session.run(&format!("SELECT FROM @.lease WHERE name = 'name/7' FOR {lock}")).await;
        let mut asking: FuturesUnordered<_> =
            (0..CALLERS).map(|it| store.execute(on(it, it, ends))).collect();
        for _ in 1..CALLERS {
            assert!(is_done(&asking.next().await.unwrap()));
        }
        let shared = database.ask("SELECT count(DISTINCT xmin::text) FROM @.lease");
        assert!(shared.parse::<u64>().unwrap() <= CALLERS / 2, "{shared}");
        session.run("COMMIT").await;
        assert!(is_done(&asking.next().await.unwrap()));
    }
}

#[tokio::test]
async fn a_row_that_changes_after_the_snapshot_of_a_statement_is_changed_by_that_statement() {
    let Some(database) = Database::new() else { return };
    let store = open(&database).await;
    // The first name begins a new epoch, whose row another transaction makes: there the statement
    // waits in its middle. A statement before it lets all of them come together.
    database.ask("UPDATE @.lease SET turn = 63 WHERE name = 'name/0'");
    let session = Transaction::begin(&database, "READ COMMITTED").await;
    session.run("INSERT INTO @.lease (name, epoch, counter) VALUES ('name/0', 1, 0)").await;
    session.run("SAVEPOINT before; LOCK TABLE @.lease IN SHARE MODE").await;
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
        AND query LIKE 'UPDATE @.lease%' AND query LIKE ";
    let ask = async |it| is_done(&store.execute(on(it, it, false)).await);
    let mut first = pin!(ask(CALLERS - 1));
    assert!(poll!(&mut first).is_pending());
    database.until(&format!("{waits}'%= $1 %'")).await;
    let mut rest = pin!(join_all((0..CALLERS - 1).map(&ask)));
    assert!(poll!(&mut rest).is_pending());
    // The store takes requests up in their order.
    store.execute(Operation::List { prefix: String::new(), after: None, keys: 1 }).await.unwrap();
    session.run("ROLLBACK TO SAVEPOINT before").await;
    database.until(&format!("{waits}'%unnest%'")).await;
    database.ask("UPDATE @.lease SET counter = counter + 1 WHERE name <> 'name/0'");
    database.ask("ALTER FUNCTION @.open_4 RENAME TO gone");
    session.run("ROLLBACK").await;
    assert!(first.await && rest.await.into_iter().all(|it| it), "a general step was needed");
}

#[tokio::test]
async fn a_name_that_is_held_or_new_or_asked_for_twice_changes_no_other_answer() {
    let Some(database) = Database::new() else { return };
    let store = open(&database).await;
    assert!(is_done(&store.execute(on(0, 90, false)).await));
    let asked = (0..CALLERS + 2).map(|it| (it, it)).chain([(1, 91)]);
    let asked = asked.map(|(name, attempt)| store.execute(on(name, attempt, false)));
    let done: Vec<bool> = join_all(asked).await.iter().map(is_done).collect();
    assert!(!done[0] && done[1] != done[CALLERS as usize + 2], "{done:?}");
    assert!(done[2..CALLERS as usize + 2].iter().all(|it| *it), "{done:?}");
    let tokens = "SELECT count(DISTINCT fence) FROM @.lease WHERE hold LIKE 'h %'";
    assert_eq!(database.ask(tokens), (CALLERS + 2).to_string());
}

#[tokio::test]
async fn a_session_that_ends_in_the_middle_of_a_statement_costs_its_callers_one_try_at_most() {
    let Some(database) = Database::new() else { return };
    let store = open(&database).await;
    for ends in [false, true] {
        let session = Transaction::begin(&database, "READ COMMITTED").await;
        session.run("LOCK TABLE @.lease IN SHARE MODE").await;
        let ending = async {
            // The first statement may have one name.
            let all = "SELECT coalesce(bool_or(pg_terminate_backend(pid, 9000) \
                AND query LIKE '%unnest%'), false) FROM pg_stat_activity \
                WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE @.lease%'";
            database.until(all).await;
            session.run("COMMIT").await;
        };
        let asking = (0..CALLERS).map(|it| store.execute(on(it, it, ends)));
        let (asked, ()) = tokio::join!(join_all(asking), ending);
        for (it, asked) in (0..).zip(asked) {
            let is_unknown = asked.as_ref().is_err_and(StoreError::may_have_executed);
            let again = is_unknown && is_done(&store.execute(on(it, it, ends)).await);
            assert!(again || is_done(&asked), "{asked:?}");
        }
    }
}
