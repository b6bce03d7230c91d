//! Leases that begin or end with a transaction of an application: `release_at_commit`, `try_hold`,
//! and the trigger that refuses a row without a fence.

use std::time::Duration;

use futures_util::poll;
use leasehold::fence::postgres::{FENCE, OVERTAKEN, TRY_HOLD};
use leasehold::{Client, FencingToken, Guard};
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

    async fn tries_to_hold(&self, name: &str) -> Result<bool, String> {
        let sql = TRY_HOLD.replace("leasehold.", &format!("{}.", self.schema));
        self.session.query_one(&sql, &[&name]).await.map(|row| row.get(0)).map_err(code)
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
    while other.admin().inspect(NAME).await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
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
    while other.admin().inspect(NAME).await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
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

#[tokio::test]
async fn nobody_is_granted_a_name_that_a_transaction_holds() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    client.mutex("known").acquire().await.unwrap().release().await.unwrap();
    for name in ["known", "new"] {
        let transaction = Transaction::begin(&database, "READ COMMITTED").await;
        assert!(transaction.tries_to_hold(name).await.unwrap(), "{name}");
        assert!(transaction.tries_to_hold(name).await.unwrap(), "it is its own: {name}");
        let second = Transaction::begin(&database, "READ COMMITTED").await;
        assert!(!second.tries_to_hold(name).await.unwrap(), "{name}");
        assert!(client.mutex(name).try_acquire().await.unwrap().is_none(), "{name}");
        assert!(client.rwlock(name).read().try_acquire().await.unwrap().is_none(), "{name}");
        let waits = client.mutex(name);
        let waiting = tokio::spawn(async move { waits.acquire().await });
        while client.admin().inspect(name).await.unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
        transaction.run("COMMIT").await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(!second.tries_to_hold(name).await.unwrap(), "a holder is in its way: {name}");
        second.run("COMMIT").await.unwrap();
        let fenced = Transaction::begin(&database, "READ COMMITTED").await;
        fenced.fence(name, guard.token()).await.unwrap();
        fenced.run("COMMIT").await.unwrap();
        guard.release().await.unwrap();
        let last = Transaction::begin(&database, "READ COMMITTED").await;
        assert!(last.tries_to_hold(name).await.unwrap(), "{name}");
    }
    for level in &LEVELS[1..] {
        let transaction = Transaction::begin(&database, level).await;
        assert_eq!(transaction.tries_to_hold("known").await.unwrap_err(), "LH002", "{level}");
    }
}

#[tokio::test]
async fn a_transaction_that_is_refused_a_name_does_not_keep_it_from_others() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    client.mutex(NAME).acquire().await.unwrap().release().await.unwrap();
    // A grant is under way, and comes to nothing.
    let grant = Transaction::begin(&database, "READ COMMITTED").await;
    grant.run("UPDATE @.token SET token = token + 4096").await.unwrap();
    let refused = Transaction::begin(&database, "READ COMMITTED").await;
    assert!(!refused.tries_to_hold(NAME).await.unwrap());
    grant.run("ROLLBACK").await.unwrap();
    let next = Transaction::begin(&database, "READ COMMITTED").await;
    assert!(next.tries_to_hold(NAME).await.unwrap());
    refused.run("COMMIT").await.unwrap();
}

#[tokio::test]
async fn a_table_with_the_trigger_takes_no_row_without_the_fence_of_its_name() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let job = client.mutex("job").acquire().await.unwrap();
    database.ask(
        "CREATE TABLE @.invoice (id int, charged int); CREATE TABLE @.done (day int); \
         CREATE CONSTRAINT TRIGGER fenced AFTER INSERT OR UPDATE OR DELETE ON @.invoice \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW \
             EXECUTE FUNCTION @.require_fence('invoices/', 'id'); \
         CREATE TRIGGER fenced BEFORE INSERT ON @.done FOR EACH ROW \
             EXECUTE FUNCTION @.require_fence('job')",
    );
    let write = |id: u32| format!("INSERT INTO @.invoice VALUES ({id}, 1)");
    let begun = async || Transaction::begin(&database, "READ COMMITTED").await;

    let none = begun().await;
    none.run(&write(42)).await.unwrap();
    assert_eq!(none.run("COMMIT").await.unwrap_err(), "LH004", "at the end, if not before");
    assert_eq!(begun().await.run("INSERT INTO @.done VALUES (1)").await.unwrap_err(), "LH004");

    let right = begun().await;
    right.run(&write(42)).await.unwrap();
    right.fence(NAME, guard.token()).await.unwrap();
    right.fence("job", job.token()).await.unwrap();
    right.run("INSERT INTO @.done VALUES (1); COMMIT").await.unwrap();

    let another = begun().await;
    another.fence(NAME, guard.token()).await.unwrap();
    another.run("UPDATE @.invoice SET id = 4").await.unwrap();
    assert_eq!(another.run("COMMIT").await.unwrap_err(), "LH004", "it is another's from now on");

    let gone = begun().await;
    gone.run("SAVEPOINT before").await.unwrap();
    gone.fence(NAME, guard.token()).await.unwrap();
    gone.run("ROLLBACK TO before; DELETE FROM @.invoice").await.unwrap();
    assert_eq!(gone.run("COMMIT").await.unwrap_err(), "LH004");

    let next = begun().await;
    next.run("DELETE FROM @.invoice").await.unwrap();
    assert_eq!(next.run("COMMIT").await.unwrap_err(), "LH004", "each transaction has its own");
    assert_eq!(database.ask("SELECT id, charged FROM @.invoice"), "42|1");
}
