//! Roles, rights, and settings of roles that could disturb the store.

use leasehold::error::StoreErrorKind;
use leasehold::store::{Postgres as Store, PostgresOptions, PostgresRoles};
use leasehold::{Client, Error};

use crate::Database;

pub(crate) fn role(database: &Database, what: &str) -> String {
    let role = format!("{what}_{}", database.schema);
    database.ask(&format!("CREATE ROLE {role} LOGIN"));
    role
}

pub(crate) fn url(database: &Database, role: &str) -> String {
    format!("{}&schema={}", database.server.url_as(role), database.schema)
}

fn holders<const N: usize>(roles: [&String; N]) -> PostgresRoles {
    let mut given = PostgresRoles::default();
    given.holders.extend(roles.into_iter().cloned());
    given
}

fn denied(refused: Error, words: &str) {
    let error = crate::refused::<()>(Err(refused));
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(words), "{words:?} is missing: {error}");
}

/// The rows of the table in the manual: what a role does, and whether a holder, a fencer, a
/// releaser and any other role may do that. `TOKEN` is the token of the lock `a`.
const RIGHTS: [(&str, [bool; 4]); 13] = [
    ("SELECT * FROM @.open_4('a')", [true, false, false, false]),
    ("SELECT * FROM @.released", [true, false, false, false]),
    ("SELECT * FROM @.lease FOR UPDATE", [true, false, false, false]),
    ("UPDATE @.lease SET turn = turn", [true, false, false, false]),
    ("SELECT * FROM @.boot", [true, false, false, false]),
    ("SELECT @.fence('a', TOKEN)", [false, true, false, false]),
    ("BEGIN; SELECT @.release_at_commit('a', TOKEN); ROLLBACK", [false, false, true, false]),
    ("DELETE FROM @.lease", [false; 4]),
    ("INSERT INTO @.lease (name, counter) VALUES ('b', 0)", [false; 4]),
    ("UPDATE @.boot SET grants_from_us = 0", [false; 4]),
    ("LOCK TABLE @.boot IN SHARE ROW EXCLUSIVE MODE", [false; 4]),
    ("SELECT * FROM @.number", [false; 4]),
    ("CREATE TABLE @.mine ()", [false; 4]),
];

#[tokio::test]
async fn a_role_may_do_what_the_table_in_the_manual_says_and_nothing_else() {
    let Some(database) = Database::new() else { return };
    let roles = ["holder", "fencer", "releaser", "nobody"].map(|it| role(&database, it));
    let [holder, fencer, releaser, nobody] = &roles;
    let refused = Client::connect(&url(&database, holder)).await.unwrap_err();
    denied(refused, "leasehold schema --install");
    let owner = PostgresOptions::from_url(&database.url()).unwrap();
    let mut given = holders([holder]);
    given.fencers.push(fencer.clone());
    given.releasers.push(releaser.clone());
    assert!(Store::install(owner.clone(), &given).await.unwrap());
    assert!(!Store::install(owner, &given).await.unwrap(), "it is there, and stays as it is");
    let client = Client::connect(&url(&database, holder)).await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    assert_eq!(client.admin().list("", 10).await.unwrap().len(), 1);
    for role in [fencer, releaser, nobody] {
        denied(Client::connect(&url(&database, role)).await.unwrap_err(), "permission denied");
    }
    let token = guard.token().get().to_string();
    for (sql, may) in RIGHTS {
        let sql = sql.replace('@', &database.schema).replace("TOKEN", &token);
        for (role, may) in roles.iter().zip(may) {
            let done = database.server.query(&format!("SET ROLE {role}; {sql}"));
            assert_eq!(done.is_ok(), may, "{role}: {sql}: {done:?}");
        }
    }
}

#[tokio::test]
async fn neither_null_nor_what_is_no_name_passes_a_fence() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let guard = client.mutex("a").acquire().await.unwrap();
    let token = guard.token().get();
    let arguments = "'unused', NULL; 'a', NULL; NULL, NULL; NULL, T; '', T; E'a\\n', T; 'a', 0";
    for function in ["fence", "release_at_commit"] {
        for given in arguments.replace('T', &token.to_string()).split("; ") {
            let sql = format!("SELECT {}.{function}({given})", database.schema);
            let refused = database.server.query(&sql).unwrap_err().to_string();
            assert!(refused.contains("the lease of"), "{sql}: {refused}");
        }
    }
    // Nobody has the token from an error, and no client waits for a transaction on no name.
    let wrong = format!("SELECT {}.fence('a', {})", database.schema, token - 4096);
    let refused = database.server.query(&wrong).unwrap_err().to_string();
    assert!(!refused.contains(&token.to_string()), "{refused}");
    let session = database.session().await;
    session.batch_execute("BEGIN").await.unwrap();
    let empty = format!("SELECT {}.fence('', NULL)", database.schema);
    session.batch_execute(&empty).await.unwrap_err();
    database.client().await.close().await.unwrap();
}

#[tokio::test]
async fn a_schema_of_a_stranger_is_refused_before_anything_of_it_is_called() {
    let Some(database) = Database::new() else { return };
    let mallory = role(&database, "mallory");
    database.ask(&format!("CREATE SCHEMA @ AUTHORIZATION {mallory}"));
    let trap = format!(
        "SET ROLE {mallory}; CREATE TABLE @.fallen (); \
         CREATE FUNCTION @.layout() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN \
         DROP TABLE @.fallen; RETURN 3; END $$; \
         CREATE FUNCTION @.boot_4(bigint, boolean) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN \
         DROP TABLE @.fallen; RETURN 3; END $$"
    );
    let still = "SELECT to_regclass('@.fallen') IS NOT NULL";
    // At the second time, the schema is ours, and a function in it is not.
    for change in [trap.as_str(), "ALTER SCHEMA @ OWNER TO postgres"] {
        database.ask(change);
        let refused = Client::connect(&database.url()).await.unwrap_err();
        denied(refused, &format!("belongs to {mallory}"));
        let owner = PostgresOptions::from_url(&database.url()).unwrap();
        let refused = Store::install(owner, &PostgresRoles::default()).await.unwrap_err();
        denied(refused, &format!("belongs to {mallory}"));
        assert!(leasehold::store::examine(&database.url()).await.is_err());
        assert_eq!(database.ask(still), "t");
    }
}

#[tokio::test]
async fn advisory_locks_of_a_role_without_rights_stop_no_lock() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let session = database.session().await;
    let nobody = role(&database, "nobody");
    session.batch_execute(&format!("SET ROLE {nobody}")).await.unwrap();
    let sql = "SELECT pg_advisory_lock(hashtextextended(name, c.oid::bigint)) \
        FROM pg_class c, (VALUES ('a'), ('')) AS names (name) WHERE c.relnamespace = \
        (SELECT oid FROM pg_namespace WHERE nspname = $1)";
    assert!(session.query(sql, &[&database.schema]).await.unwrap().len() > 4);
    let guard = client.mutex("a").acquire().await.unwrap();
    guard.renew().await.unwrap();
    database.client().await.close().await.unwrap();
    let fence = format!("SELECT {}.fence('a', {})", database.schema, guard.token().get());
    database.server.query(&fence).unwrap();
    guard.release().await.unwrap();
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_told() {
    let Some(database) = Database::new() else { return };
    let holder = role(&database, "holder");
    let owner = PostgresOptions::from_url(&database.url()).unwrap();
    Store::install(owner, &holders([&holder])).await.unwrap();
    let client = Client::connect(&url(&database, &holder)).await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    database.ask(&format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA @ FROM {holder}"));
    denied(client.mutex("b").try_acquire().await.unwrap_err(), "leasehold schema --holder");
    database.ask(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA @ TO {holder}"));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn what_a_role_has_set_for_its_own_transactions_is_in_nobodys_way() {
    let Some(database) = Database::new() else { return };
    let holder = role(&database, "holder");
    let owner = PostgresOptions::from_url(&database.url()).unwrap();
    Store::install(owner, &holders([&holder])).await.unwrap();
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "default_transaction_deferrable = on",
        "lock_timeout = '1ms'",
        "statement_timeout = '500ms'",
        "synchronous_commit = off",
        "idle_session_timeout = '50ms'",
        "search_path = nowhere",
        "standard_conforming_strings = off",
        "DateStyle = 'German'",
    ] {
        database.ask(&format!("ALTER ROLE {holder} SET {setting}"));
        let client = Client::connect(&url(&database, &holder)).await.unwrap();
        for _ in 0..3 {
            let guard = client.mutex("a").acquire().await.unwrap();
            assert!(client.mutex("a").try_acquire().await.unwrap().is_none(), "{setting}");
            guard.renew().await.unwrap();
            assert_eq!(client.admin().list("", 10).await.unwrap().len(), 1, "{setting}");
            guard.release().await.unwrap();
            // Wait until its sessions may have been ended.
            tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        }
        client.close().await.unwrap();
        database.ask(&format!("ALTER ROLE {holder} RESET ALL"));
    }
}
