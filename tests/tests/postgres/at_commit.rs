//! Leases that end with a transaction of an application: `release_at_commit`.

use std::time::Duration;

use futures_util::poll;
use leasehold::fence::postgres::OVERTAKEN;
use leasehold::store::Store as _;
use leasehold::{Client, Guard};
use leasehold_core::{Action, ClientId, HolderId, LockName, Operation, Place, Reply};
use leasehold_testkit::harness::{acquiring, queued, request};

use crate::Database;
use crate::fence::{NAME, Transaction, World};

/// Ends the lease with the transaction.
async fn release(transaction: &Transaction, guard: &Guard) {
    transaction.call(guard.release_at_commit(), guard.token()).await.unwrap();
}

#[tokio::test]
async fn what_is_written_and_the_end_of_the_lease_are_one_commit() {
    for (world, _) in World::each().await {
        let World { database, level, holder: client, other } = &world;
        let guard = client.mutex(NAME).acquire().await.unwrap();
        let transaction = Transaction::begin(database, level).await;
        transaction.run("UPDATE @.value SET value = 1").await;
        release(&transaction, &guard).await;
        guard.renew().await.unwrap();
        assert!(other.mutex(NAME).try_acquire().await.unwrap().is_none(), "{level}: not yet");
        transaction.run("COMMIT").await;
        assert_eq!(database.ask("SELECT value FROM @.value"), "1");
        let status = other.admin().inspect(NAME).await.unwrap();
        assert!(status.holders.is_empty(), "{level}: {status:?}");
        let late = Transaction::begin(database, level).await;
        assert_eq!(late.fence(guard.token()).await.unwrap_err(), OVERTAKEN, "{level}");
        // Its locks end with the session, a little after the error was reported.
        late.run("ROLLBACK").await;
        // The guard still exists: nobody has released it.
        let next = other.mutex(NAME).try_acquire().await.unwrap().expect("it is free");
        assert!(next.token() > guard.token());
        guard.renew().await.unwrap_err();
        let fenced = Transaction::begin(database, level).await;
        fenced.fence(next.token()).await.unwrap();
    }
}

#[tokio::test]
async fn a_rollback_leaves_the_lease_as_it_was() {
    for (world, _) in World::each().await {
        let World { database, level, holder: client, other } = &world;
        let guard = client.mutex(NAME).acquire().await.unwrap();
        let transaction = Transaction::begin(database, level).await;
        release(&transaction, &guard).await;
        transaction.run("ROLLBACK").await;
        guard.renew().await.unwrap();
        assert!(other.mutex(NAME).try_acquire().await.unwrap().is_none(), "{level}");
        let again = Transaction::begin(database, level).await;
        release(&again, &guard).await;
        again.run("COMMIT").await;
        guard.release().await.expect("the commit has let go, and so does its holder");
        assert!(other.mutex(NAME).try_acquire().await.unwrap().is_some(), "{level}");
    }
}

#[tokio::test]
async fn a_lease_that_a_commit_has_ended_is_not_passed_on_to_another_caller_of_its_client() {
    let Some(database) = Database::new() else { return };
    let slice = Duration::from_secs(3_600);
    let client = Client::builder().url(database.url()).slice(slice).build().await.unwrap();
    let other = database.client().await;
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let waiting = acquiring(other.mutex(NAME));
    queued(&other, NAME, 1).await;
    let waits = client.mutex(NAME);
    let mut in_line = Box::pin(async move { waits.acquire().await });
    assert!(poll!(&mut in_line).is_pending());
    let in_line = tokio::spawn(in_line);
    let transaction = Transaction::begin(&database, "READ COMMITTED").await;
    release(&transaction, &guard).await;
    transaction.run("COMMIT").await;
    let next = waiting.await.unwrap().unwrap();
    let token = next.token();
    assert!(token > guard.token(), "although nobody lets go of the guard");
    drop(guard);
    next.release().await.unwrap();
    let last = in_line.await.unwrap().unwrap();
    assert!(last.token() > token, "it has a lease that is over");
    let fenced = Transaction::begin(&database, "READ COMMITTED").await;
    fenced.fence(last.token()).await.unwrap();
}

#[tokio::test]
async fn nobody_waits_for_an_open_transaction_that_will_release_the_name_once_more() {
    let Some(database) = Database::new() else { return };
    let (client, store) = (database.client().await, crate::open(&database.url()).await);
    let transaction = Transaction::begin(&database, "READ COMMITTED").await;
    let guard = client.mutex(NAME).acquire().await.unwrap();
    release(&transaction, &guard).await;
    transaction.run("COMMIT; BEGIN").await;
    guard.release().await.unwrap();
    let guard = client.mutex(NAME).acquire().await.unwrap();
    release(&transaction, &guard).await;
    let take = request(HolderId { client: ClientId(1), attempt: 1 }).with_waits(true);
    let ask = async |place| {
        let (name, take) = (LockName::new(NAME).unwrap(), take.clone().with_place(place));
        store.execute(Operation::On { name, action: Action::Take(take) }).await.unwrap().reply
    };
    let Reply::Queued(Place { sequence, .. }) = ask(None).await else { panic!("it is held") };
    assert!(matches!(ask(Some(sequence)).await, Reply::Queued(_)));
    guard.renew().await.unwrap();
    database.ask("SET statement_timeout = '5s'; SELECT @.sweep_4()");
    transaction.run("COMMIT").await;
    assert!(matches!(ask(Some(sequence)).await, Reply::Granted(_)));
}

#[tokio::test]
async fn a_commit_also_ends_a_lease_that_was_revoked_meanwhile() {
    let Some(database) = Database::new() else { return };
    let (client, other) = (database.client().await, database.client().await);
    let guard = client.mutex(NAME).ttl(Duration::from_secs(600)).acquire().await.unwrap();
    let transaction = Transaction::begin(&database, "READ COMMITTED").await;
    release(&transaction, &guard).await;
    assert!(other.admin().revoke(NAME, guard.token()).await.unwrap());
    assert!(other.mutex(NAME).try_acquire().await.unwrap().is_none());
    transaction.run("COMMIT").await;
    assert!(other.mutex(NAME).try_acquire().await.unwrap().is_some(), "it is free");
}
