//! `fence` in transactions of an application: exact at each isolation level, whatever happens to
//! the lease meanwhile.

use std::time::Duration;

use leasehold::fence::postgres::{FENCE, OVERTAKEN, is_overtaken};
use leasehold::{Client, FencingToken, Guard};
use leasehold_testkit::harness::{acquiring, queued};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;

use crate::Database;

pub(crate) const NAME: &str = "invoices/42";

/// No renewal writes the row of a lease of this length while a test does so itself.
const UNRENEWED: Duration = Duration::from_secs(600);

/// Each level, and the error of `fence` for a grant that is newer than the snapshot.
const LEVELS: [(&str, &str); 3] =
    [("READ COMMITTED", OVERTAKEN), ("REPEATABLE READ", "40001"), ("SERIALIZABLE", "40001")];

/// An application with a database, two clients of its locks, and a value that they guard.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) level: &'static str,
    pub(crate) holder: Client,
    pub(crate) other: Client,
}

impl World {
    /// One world for each isolation level, with the error of `fence` for a newer grant.
    pub(crate) async fn each() -> Vec<(Self, &'static str)> {
        let mut worlds = Vec::new();
        for (level, late) in LEVELS {
            let Some(database) = Database::new() else { return worlds };
            let (holder, other) = (database.client().await, database.client().await);
            database.ask("CREATE TABLE @.value (value int); INSERT INTO @.value VALUES (0)");
            worlds.push((Self { database, level, holder, other }, late));
        }
        worlds
    }

    /// A transaction that has read, and so has its snapshot.
    async fn transaction(&self) -> Transaction {
        let transaction = Transaction::begin(&self.database, self.level).await;
        transaction.value().await;
        transaction
    }

    /// A holder with its token, and a transaction that begins afterwards.
    async fn held(&self) -> (Guard, FencingToken, Transaction) {
        let guard = self.holder.mutex(NAME).ttl(UNRENEWED).acquire().await.unwrap();
        let token = guard.token();
        (guard, token, self.transaction().await)
    }

    /// Another holder comes and goes, unless the name is held back.
    async fn somebody_else_was_here(&self) {
        self.other.mutex(NAME).acquire().await.unwrap().release().await.unwrap();
    }

    async fn assert_held_back(&self) {
        assert!(self.other.mutex(NAME).try_acquire().await.unwrap().is_none(), "{}", self.level);
    }

    async fn revoke(&self, guard: &Guard) {
        assert!(self.other.admin().revoke_now(NAME, guard.token()).await.unwrap());
    }
}

/// A session of the application, in a transaction at an isolation level.
pub(crate) struct Transaction {
    session: tokio_postgres::Client,
    schema: String,
}

impl Transaction {
    pub(crate) async fn begin(database: &Database, level: &str) -> Self {
        let transaction =
            Self { session: database.session().await, schema: database.schema.clone() };
        transaction.run(&format!("BEGIN ISOLATION LEVEL {level}")).await;
        transaction
    }

    /// Runs statements in which `@` stands for the schema.
    pub(crate) async fn run(&self, sql: &str) {
        self.session.batch_execute(&sql.replace('@', &self.schema)).await.unwrap();
    }

    /// The SQLSTATE code with which a function of the store fails for a token, if it does.
    pub(crate) async fn call(&self, sql: &str, token: FencingToken) -> Result<(), String> {
        let sql = sql.replace("leasehold.", &format!("{}.", self.schema));
        let token = i64::try_from(token.get()).unwrap();
        let passed = self.session.execute(&sql, &[&NAME, &token]).await;
        passed.map(drop).map_err(|error| error.code().map_or("", SqlState::code).to_owned())
    }

    pub(crate) async fn fence(&self, token: FencingToken) -> Result<(), String> {
        self.call(FENCE, token).await
    }

    async fn value(&self) -> i32 {
        let sql = format!("SELECT max(value) FROM {}.value", self.schema);
        self.session.query_one(&sql, &[]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn a_hold_ends_at_once_and_the_next_grant_waits_for_the_commit() {
    for (world, _) in World::each().await {
        for is_revoked in [false, true] {
            let (guard, token, transaction) = world.held().await;
            transaction.fence(token).await.unwrap();
            match is_revoked {
                true => world.revoke(&guard).await,
                false => guard.release().await.unwrap(),
            }
            let status = world.other.admin().inspect(NAME).await.unwrap();
            assert!(status.holders.is_empty(), "{}: it has ended", world.level);
            world.assert_held_back().await;
            let waiting = acquiring(world.other.mutex(NAME));
            world.database.until("SELECT coalesce(record, '') ~ 'waits' FROM @.lease").await;
            transaction.run("UPDATE @.value SET value = value + 1; COMMIT").await;
            let next = waiting.await.unwrap().unwrap();
            assert!(world.transaction().await.fence(next.token()).await.is_ok());
            next.release().await.unwrap();
        }
        assert_eq!(world.transaction().await.value().await, 2, "both were committed");
    }
}

#[tokio::test]
async fn an_end_or_a_grant_to_another_since_the_snapshot_is_noticed() {
    for (world, late) in World::each().await {
        for is_granted in [false, true] {
            let (guard, token, transaction) = world.held().await;
            guard.release().await.unwrap();
            if is_granted {
                world.somebody_else_was_here().await;
            }
            assert_eq!(transaction.fence(token).await.unwrap_err(), late, "{}", world.level);
            transaction.run("ROLLBACK").await;
            let code = world.transaction().await.fence(token).await.unwrap_err();
            assert!(is_overtaken(&code), "{}: {code}", world.level);
        }
    }
}

#[tokio::test]
async fn a_hand_over_since_the_snapshot_is_noticed_and_waits_for_a_fenced_transaction() {
    for (world, late) in World::each().await {
        for is_fenced in [false, true] {
            let (guard, token, transaction) = world.held().await;
            let waiting = acquiring(world.other.mutex(NAME));
            queued(&world.holder, NAME, 1).await;
            if is_fenced {
                transaction.fence(token).await.unwrap();
            }
            guard.release().await.unwrap();
            if is_fenced {
                let status = world.holder.admin().inspect(NAME).await.unwrap();
                assert!(status.holders.is_empty(), "{}: {status:?}", world.level);
                transaction.run("COMMIT").await;
            }
            let next = waiting.await.unwrap().unwrap();
            if !is_fenced {
                assert_eq!(transaction.fence(token).await.unwrap_err(), late, "{}", world.level);
            }
            next.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn renewals_and_the_fence_are_not_in_each_others_way() {
    for (world, _) in World::each().await {
        let (guard, token, transaction) = world.held().await;
        for _ in 0..4 {
            guard.renew().await.unwrap();
            transaction.fence(token).await.unwrap();
        }
        transaction.run("COMMIT").await;
        assert!(guard.is_held());
        world.assert_held_back().await;
    }
}

#[tokio::test]
async fn a_grant_that_is_not_committed_yet_is_waited_for() {
    for (world, late) in World::each().await {
        let (_guard, token, transaction) = world.held().await;
        let grant = world.database.session().await;
        let schema = &world.database.schema;
        let sql = format!(
            "BEGIN; SELECT FROM {schema}.lease FOR UPDATE; \
             UPDATE {schema}.lease SET fence = fence + 1"
        );
        grant.batch_execute(&sql).await.unwrap();
        let fenced = tokio::spawn(async move { transaction.fence(token).await });
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity \
            WHERE wait_event_type = 'Lock' AND query LIKE '%@.fence%')";
        world.database.until(waits).await;
        grant.batch_execute("COMMIT").await.unwrap();
        assert_eq!(fenced.await.unwrap().unwrap_err(), late, "{}", world.level);
    }
}

#[tokio::test]
async fn a_name_whose_rows_were_removed_and_made_anew_is_noticed() {
    for (world, late) in World::each().await {
        let (guard, token, transaction) = world.held().await;
        guard.release().await.unwrap();
        world.database.ask("UPDATE @.lease SET free_from_us = 0; SELECT @.sweep_4()");
        assert_eq!(world.database.ask("SELECT count(*) FROM @.lease"), "0", "it is free");
        let next = world.other.mutex(NAME).acquire().await.unwrap();
        assert!(next.token() > token);
        assert_eq!(transaction.fence(token).await.unwrap_err(), late, "{}", world.level);
    }
}

#[tokio::test]
async fn a_table_that_was_rewritten_since_the_snapshot_lets_no_overtaken_token_pass() {
    for (world, late) in World::each().await {
        for rewrite in ["VACUUM FULL @.lease", "CLUSTER @.lease USING lease_pkey"] {
            for is_over in [true, false] {
                let (guard, token, transaction) = world.held().await;
                if is_over {
                    guard.release().await.unwrap();
                    world.somebody_else_was_here().await;
                }
                world.database.ask(rewrite);
                let passes = !is_over && late == OVERTAKEN;
                let expected = if passes { Ok(()) } else { Err(late.to_owned()) };
                assert_eq!(transaction.fence(token).await, expected, "{}, {rewrite}", world.level);
                transaction.run("ROLLBACK").await;
                let again = world.transaction().await.fence(token).await;
                assert_eq!(again.is_ok(), !is_over, "{}, {rewrite}", world.level);
            }
        }
    }
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_its_fence_along() {
    for (world, _) in World::each().await {
        let (guard, token, transaction) = world.held().await;
        transaction.run("SAVEPOINT one").await;
        transaction.fence(token).await.unwrap();
        guard.release().await.unwrap();
        world.assert_held_back().await;
        transaction.run("ROLLBACK TO SAVEPOINT one").await;
        world.somebody_else_was_here().await;
    }
}

#[tokio::test]
async fn a_prepared_transaction_holds_back_until_it_is_committed() {
    for (world, _) in World::each().await {
        let (guard, token, transaction) = world.held().await;
        transaction.fence(token).await.unwrap();
        transaction.run("PREPARE TRANSACTION '@'").await;
        drop(transaction);
        guard.release().await.unwrap();
        world.assert_held_back().await;
        world.database.ask("COMMIT PREPARED '@'");
        world.somebody_else_was_here().await;
    }
}

#[tokio::test]
async fn nobody_adopts_a_lease_while_its_holder_before_is_in_a_fenced_transaction() {
    let Some((world, _)) = World::each().await.into_iter().next() else { return };
    let (guard, token, transaction) = world.held().await;
    transaction.fence(token).await.unwrap();
    let lease = guard.into_lease().unwrap();
    let adopter = world.other.clone();
    let adopting = tokio::spawn(async move { adopter.adopt(lease).await });
    // The lock is requested and not granted: the earlier token is still the newest.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!adopting.is_finished());
    transaction.run("COMMIT").await;
    let adopted = adopting.await.unwrap().unwrap();
    assert!(adopted.token() > token);
}

#[tokio::test]
async fn a_fence_at_the_end_is_as_exact_as_one_at_the_beginning() {
    for (world, late) in World::each().await {
        let guard = world.holder.mutex(NAME).acquire().await.unwrap();
        let token = guard.token();
        let write = "UPDATE @.value SET value = value + 1";
        let kept = world.transaction().await;
        kept.run(write).await;
        kept.fence(token).await.unwrap();
        kept.run("COMMIT").await;
        let refused = world.transaction().await;
        refused.run(write).await;
        guard.release().await.unwrap();
        // Each 64th grant begins a new epoch.
        for _ in 0..140 {
            world.somebody_else_was_here().await;
        }
        assert_eq!(refused.fence(token).await.unwrap_err(), late, "{}", world.level);
        refused.run("ROLLBACK").await;
        assert_eq!(world.transaction().await.value().await, 1);
    }
}

/// Transactions at each level by turns, under one lock: each adds a number, one more than the last.
/// An operator takes the lease away in the middle of every third one. A check without a fence only
/// looks. Returns how many were committed, and the last number.
async fn count_up(world: &World, is_fenced: bool) -> (i32, i32) {
    let mut workers = JoinSet::new();
    for number in 0..4_usize {
        let client = world.database.client().await;
        let (session, schema) = (world.database.session().await, world.database.schema.clone());
        workers.spawn(async move {
            let transaction = Transaction { session, schema };
            let run = async |sql: String| transaction.session.batch_execute(&sql).await.is_ok();
            let schema = &transaction.schema;
            let mut committed = 0;
            for turn in 0..25 {
                let guard = client.mutex(NAME).acquire().await.unwrap();
                let (token, level) = (guard.token(), LEVELS[(number + turn) % LEVELS.len()].0);
                assert!(run(format!("BEGIN ISOLATION LEVEL {level}")).await);
                let (us, is_first) = (token.micros(), turn % 2 == 0);
                let check = async || match is_fenced {
                    true => transaction.fence(token).await.is_ok(),
                    false => {
                        run(format!("SELECT 1 / (fence = {us})::int FROM {schema}.lease")).await
                    }
                };
                let mut passed = !is_first || check().await;
                if passed {
                    let value = transaction.value().await + 1;
                    if turn % 3 == 0 {
                        let _ = client.admin().revoke_now(NAME, token).await;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    passed = run(format!("INSERT INTO {schema}.value VALUES ({value})")).await
                        && (is_first || check().await);
                }
                let ended = run(if passed { "COMMIT" } else { "ROLLBACK" }.to_owned()).await;
                committed += i32::from(passed && ended);
                // An operator may have taken it away.
                let _ = guard.release().await;
            }
            committed
        });
    }
    let committed = workers.join_all().await.into_iter().sum();
    (committed, world.transaction().await.value().await)
}

#[tokio::test]
async fn fenced_transactions_lose_no_number_and_those_that_only_look_lose_some() {
    let Some((world, _)) = World::each().await.into_iter().next() else { return };
    let (committed, last) = count_up(&world, true).await;
    assert!(committed > 25, "{committed}");
    assert_eq!(last, committed);
    let (committed, later) = count_up(&world, false).await;
    assert!(later - last < committed, "{committed}: {last}, {later}");
}
