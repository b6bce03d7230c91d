//! Roles, rights, and settings of roles that could disturb the store.

use leasehold::error::StoreErrorKind;
use leasehold::store::Postgres as Store;
use leasehold::store::{PostgresOptions, PostgresRoles};
use leasehold::{Client, Error};

use crate::Database;

/// Makes a role that only this test has.
fn role(database: &Database, what: &str) -> String {
    let role = format!("{what}_{}", database.schema);
    database.ask(&format!("CREATE ROLE {role} LOGIN"));
    role
}

fn url(database: &Database, role: &str) -> String {
    format!("{}&schema={}", database.server.url_as(role), database.schema)
}

fn denied(refused: Error, words: &str) {
    let Error::Store(error) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(words), "{words:?} is missing: {error}");
}

#[tokio::test]
async fn a_role_needs_a_right_to_each_function_and_none_to_a_table() {
    let Some(database) = Database::new() else { return };
    let [holder, fencer, nobody] = ["holder", "fencer", "nobody"].map(|it| role(&database, it));
    let refused = Client::connect(&url(&database, &holder)).await.unwrap_err();
    denied(refused, "leasehold schema --install");
    let owner = PostgresOptions::from_url(&database.url()).unwrap();
    let roles = PostgresRoles::new().holder(&holder).fencer(&fencer);
    assert!(Store::install(owner.clone(), &roles).await.unwrap());
    assert!(!Store::install(owner, &roles).await.unwrap(), "it is there, and stays as it is");
    let client = Client::connect(&url(&database, &holder)).await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    assert_eq!(client.admin().list("", 10).await.unwrap().len(), 1);
    denied(Client::connect(&url(&database, &nobody)).await.unwrap_err(), "permission denied");
    denied(Client::connect(&url(&database, &fencer)).await.unwrap_err(), "permission denied");
    let may = |role: &str, sql: &str| {
        let sql = format!("SET ROLE {role}; {}", sql.replace('@', &database.schema));
        database.server.query(&sql).is_ok()
    };
    let fence = format!("SELECT @.fence('a', {})", guard.token().get());
    assert!(may(&fencer, &fence) && !may(&holder, &fence) && !may(&nobody, &fence));
    for role in [&holder, &fencer, &nobody] {
        for table in ["lock", "token", "counter", "number"] {
            assert!(!may(role, &format!("SELECT * FROM @.{table}")), "{role}: {table}");
        }
    }
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_told() {
    let Some(database) = Database::new() else { return };
    let holder = role(&database, "holder");
    let owner = PostgresOptions::from_url(&database.url()).unwrap();
    Store::install(owner, &PostgresRoles::new().holder(&holder)).await.unwrap();
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
    Store::install(owner, &PostgresRoles::new().holder(&holder)).await.unwrap();
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "default_transaction_deferrable = on",
        "lock_timeout = '1ms'",
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
