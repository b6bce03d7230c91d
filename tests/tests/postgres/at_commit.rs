//! Leases that end with a transaction of an application: `release_at_commit`.

use std::time::Duration;

use futures_util::poll;
use leasehold::fence::postgres::{FENCE, OVERTAKEN};
use leasehold::{Client, FencingToken, Guard};
use leasehold_testkit::harness::queued;
use tokio_postgres::types::ToSql;

use crate::Database;

const NAME: &str = "invoices/42";

/// A session of the application, in a transaction at an isolation level.
pub(crate) struct Transaction {
    session: tokio_postgres::Client,
    schema: String,
}

impl Transaction {
    pub(crate) async fn begin(database: &Database, level: &str) -> Self {
        let session = database.session().await;
        session.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await.unwrap();
        Self { session, schema: database.schema.clone() }
    }

    /// Runs statements in which `@` stands for the schema. An error is the SQLSTATE code.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), String> {
        self.session.batch_execute(&sql.replace('@', &self.schema)).await.map_err(code)
    }

    async fn call(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), String> {
        let sql = sql.replace("leasehold.", &format!("{}.", self.schema));
        self.session.execute(&sql, values).await.map(drop).map_err(code)
    }

    pub(crate) async fn fence(&self, name: &str, token: FencingToken) -> Result<(), String> {
        self.call(FENCE, &[&name, &i64::try_from(token.get()).unwrap()]).await
    }

    async fn release(&self, guard: &Guard) -> Result<(), String> {
        let token = i64::try_from(guard.token().get()).unwrap();
        self.call(guard.release_at_commit(), &[&NAME, &token]).await
    }
}

fn code(error: tokio_postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

#[tokio::test]
async fn what_is_written_and_the_end_of_the_lease_are_one_commit() {
    for level in LEVELS {
        let Some(database) = Database::new() else { return };
        let (client, other) = (database.client().await, database.client().await);
        database.ask("CREATE TABLE @.value (value int)");
        let guard = client.mutex(NAME).acquire().await.unwrap();
        let transaction = Transaction::begin(&database, level).await;
        transaction.run("INSERT INTO @.value VALUES (1)").await.unwrap();
        transaction.release(&guard).await.unwrap();
        guard.renew().await.unwrap();
        assert!(other.mutex(NAME).try_acquire().await.unwrap().is_none(), "{level}: not yet");
        transaction.run("COMMIT").await.unwrap();
        assert_eq!(database.ask("SELECT value FROM @.value"), "1");
        let status = other.admin().inspect(NAME).await.unwrap();
        assert!(status.holders.is_empty(), "{level}: {status:?}");
        let late = Transaction::begin(&database, level).await;
        assert_eq!(late.fence(NAME, guard.token()).await.unwrap_err(), OVERTAKEN, "{level}");
        // Its locks end with the session, a little after the error was reported.
        late.run("ROLLBACK").await.unwrap();
        // The guard still exists: nobody has released it.
        let next = other.mutex(NAME).try_acquire().await.unwrap().expect("it is free");
        assert!(next.token() > guard.token());
        guard.renew().await.unwrap_err();
        let fenced = Transaction::begin(&database, level).await;
        fenced.fence(NAME, next.token()).await.unwrap();
    }
}

#[tokio::test]
async fn a_rollback_leaves_the_lease_as_it_was() {
    for level in LEVELS {
        let Some(database) = Database::new() else { return };
        let (client, other) = (database.client().await, database.client().await);
        let guard = client.mutex(NAME).acquire().await.unwrap();
        let transaction = Transaction::begin(&database, level).await;
        transaction.release(&guard).await.unwrap();
        transaction.run("ROLLBACK").await.unwrap();
        guard.renew().await.unwrap();
        assert!(other.mutex(NAME).try_acquire().await.unwrap().is_none(), "{level}");
        let again = Transaction::begin(&database, level).await;
        again.release(&guard).await.unwrap();
        again.run("COMMIT").await.unwrap();
        guard.release().await.expect("the commit has let go, and so does its holder");
        assert!(other.mutex(NAME).try_acquire().await.unwrap().is_some(), "{level}");
    }
}

#[tokio::test]
async fn a_waiter_is_granted_what_a_commit_has_released_although_nobody_lets_go_of_the_guard() {
    let Some(database) = Database::new() else { return };
    let (client, other) = (database.client().await, database.client().await);
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let waits = other.mutex(NAME);
    let waiting = tokio::spawn(async move { waits.acquire().await });
    queued(&other, NAME, 1).await;
    let transaction = Transaction::begin(&database, "READ COMMITTED").await;
    transaction.release(&guard).await.unwrap();
    transaction.run("COMMIT").await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > guard.token());
}

#[tokio::test]
async fn a_lease_that_a_commit_has_ended_is_not_passed_on_to_another_caller_of_its_client() {
    let Some(database) = Database::new() else { return };
    let slice = Duration::from_secs(3_600);
    let client = Client::builder().url(database.url()).slice(slice).build().await.unwrap();
    let other = database.client().await;
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let waits = other.mutex(NAME);
    let waiting = tokio::spawn(async move { waits.acquire().await });
    queued(&other, NAME, 1).await;
    let waits = client.mutex(NAME);
    let mut in_line = Box::pin(async move { waits.acquire().await });
    assert!(poll!(&mut in_line).is_pending());
    let in_line = tokio::spawn(in_line);
    let transaction = Transaction::begin(&database, "READ COMMITTED").await;
    transaction.release(&guard).await.unwrap();
    transaction.run("COMMIT").await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    drop(guard);
    let token = next.token();
    next.release().await.unwrap();
    let last = in_line.await.unwrap().unwrap();
    assert!(last.token() > token, "it has a lease that is over");
    let fenced = Transaction::begin(&database, "READ COMMITTED").await;
    fenced.fence(NAME, last.token()).await.unwrap();
}
