//! The findings about the server and the role. Findings about sessions, standbys and transactions
//! that hold names back are in the tests of these.

use leasehold::Client;
use leasehold::store::{Finding, Level, examine};
use leasehold_testkit::{Postgres, must};

use crate::faults::session;
use crate::{Database, installed};

/// The findings of one examination.
pub(crate) struct Visit(Vec<Finding>);

impl Visit {
    pub(crate) async fn to(url: &str) -> Self {
        Self(examine(url).await.unwrap())
    }

    /// Checks that there is a finding of this level on a topic, with these words in it.
    #[track_caller]
    pub(crate) fn assert_found(&self, level: Level, topic: &str, words: &str) {
        let mut of_topic = self.0.iter().filter(|it| it.topic == topic && it.level == level);
        assert!(of_topic.any(|it| it.to_string().contains(words)), "{words:?}: {:?}", self.0);
    }
}

#[tokio::test]
async fn settings_of_the_role_that_locks_and_fences_feel_are_named_with_what_mends_them() {
    let Some(database) = Database::new() else { return };
    database.client().await.close().await.unwrap();
    let role = format!("examined_{}", database.schema);
    database.ask(&format!("CREATE ROLE {role} LOGIN SUPERUSER"));
    let url = format!("{}&schema={}", database.server.url_as(&role), database.schema);
    for (name, value, topic, words) in [
        ("default_transaction_isolation", "'serializable'", "isolation", "are serializable"),
        ("default_transaction_read_only", "on", "isolation", "are read-only"),
        ("statement_timeout", "'500ms'", "timeouts", "statement_timeout is 500 ms"),
        ("lock_timeout", "'1ms'", "timeouts", "lock_timeout is 1 ms"),
        ("transaction_timeout", "'3s'", "timeouts", "transaction_timeout is 3000 ms"),
        (
            "idle_in_transaction_session_timeout",
            "0",
            "timeouts",
            "idle_in_transaction_session_timeout is 0",
        ),
    ] {
        // Only PostgreSQL 17 and newer have the fifth setting.
        if database.ask(&format!("SELECT count(*) FROM pg_settings WHERE name = '{name}'")) == "0" {
            continue;
        }
        database.ask(&format!("ALTER ROLE {role} SET {name} = {value}"));
        let visit = Visit::to(&url).await;
        visit.assert_found(Level::Warning, topic, words);
        visit.assert_found(Level::Warning, topic, &format!("ALTER ROLE {role} SET {name} = "));
        database.ask(&format!("ALTER ROLE {role} RESET ALL"));
    }
    database.ask(&format!("ALTER ROLE {role} SET idle_in_transaction_session_timeout = '1min'"));
    let visit = Visit::to(&url).await;
    visit.assert_found(Level::Ok, "isolation", "read committed");
    visit.assert_found(Level::Ok, "timeouts", "long enough");
}

#[tokio::test]
async fn a_replication_slot_that_nobody_uses_is_named() {
    let Some(database) = Database::new() else { return };
    Visit::to(&database.url()).await.assert_found(Level::Ok, "replication slots", "");
    database.ask("SELECT pg_create_physical_replication_slot('gone', true)");
    let visit = Visit::to(&database.url()).await;
    visit.assert_found(Level::Warning, "replication slots", "pg_drop_replication_slot('gone')");
    database.ask("SELECT pg_drop_replication_slot('gone')");
}

#[tokio::test]
async fn a_server_that_clears_nothing_away_or_waits_for_a_lost_standby_is_told() {
    let started = must(Postgres::start_with(&["autovacuum=off"]));
    let Some(server) = installed("PostgreSQL", started) else { return };
    Visit::to(&server.url()).await.assert_found(Level::Warning, "schema", "is not there");
    let nothing = "SELECT to_regnamespace('leasehold') IS NULL";
    assert_eq!(must(server.query(nothing)).trim(), "t", "it was looked at, and not made");
    Client::connect(&server.url()).await.unwrap().close().await.unwrap();
    let visit = Visit::to(&server.url()).await;
    visit.assert_found(Level::Warning, "autovacuum", "set autovacuum = on");
    visit.assert_found(Level::Ok, "snapshots", "");
    visit.assert_found(Level::Ok, "standbys", "no standby is waited for");

    let report = session(&server).await.unwrap();
    report.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    must(server.run(
        "SET synchronous_commit = off;
         ALTER TABLE leasehold.lock SET (autovacuum_enabled = off);
         INSERT INTO leasehold.token SELECT i::text, 0, i FROM generate_series(1, 100100) AS i;
         DELETE FROM leasehold.token;
         DO $$ BEGIN
           FOR i IN 1..100100 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP;
         END $$;",
    ));
    must(server.query("ALTER SYSTEM SET synchronous_standby_names = 'FIRST 2 (one, two)'"));
    must(server.query("SELECT pg_reload_conf()"));
    while must(server.query("SHOW synchronous_standby_names")).trim().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let visit = Visit::to(&server.url()).await;
    visit.assert_found(Level::Warning, "autovacuum", "RESET (autovacuum_enabled)");
    visit.assert_found(Level::Warning, "autovacuum", "VACUUM leasehold.token");
    visit.assert_found(Level::Warning, "snapshots", "pg_replication_slots");
    visit.assert_found(Level::Danger, "standbys", "0 of 2 synchronous standbys are there");
}
