//! Transactions that hang with a name that others want: they are named, and ended on request.

use leasehold::Client;
use leasehold::store::examine;

use crate::Database;
use crate::at_commit::Transaction;

const NAME: &str = "invoices/42";

#[tokio::test]
async fn a_fenced_transaction_that_hangs_is_ended_some_time_after_its_lease_if_that_is_asked_for() {
    let Some(database) = Database::new() else { return };
    let url = format!("{}&end_fenced=1s", database.url());
    let (client, other) =
        (Client::connect(&url).await.unwrap(), Client::connect(&url).await.unwrap());
    database.ask("CREATE TABLE @.value (value int)");
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let hangs = Transaction::begin(&database, "READ COMMITTED").await;
    hangs.fence(NAME, guard.token()).await.unwrap();
    hangs.run("INSERT INTO @.value VALUES (1)").await.unwrap();
    guard.release().await.unwrap();
    let next = other.mutex(NAME).acquire().await.unwrap();
    assert!(hangs.run("COMMIT").await.is_err(), "it was ended");
    assert_eq!(database.ask("SELECT count(*) FROM @.value"), "0");
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_transaction_with_the_fence_of_the_present_holder_is_not_ended() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let fenced = Transaction::begin(&database, "READ COMMITTED").await;
    fenced.fence(NAME, guard.token()).await.unwrap();
    let end = "SELECT @.end_fenced_1('invoices/42')";
    assert_eq!(database.ask(end), "0");
    fenced.run("SELECT").await.expect("nobody has ended it");
    guard.release().await.unwrap();
    assert_eq!(database.ask(end), "1", "nobody holds the name any more");
}

#[tokio::test]
async fn a_transaction_that_holds_a_name_as_a_lock_is_not_ended() {
    let Some(database) = Database::new() else { return };
    let url = format!("{}&end_fenced=1s", database.url());
    let client = Client::connect(&url).await.unwrap();
    client.mutex(NAME).acquire().await.unwrap().release().await.unwrap();
    let holds = Transaction::begin(&database, "READ COMMITTED").await;
    holds.run("SELECT @.try_hold('invoices/42')").await.unwrap();
    database.ask("SELECT pg_sleep(1.1)");
    assert!(client.mutex(NAME).try_acquire().await.unwrap().is_none());
    let status = client.admin().inspect(NAME).await.unwrap();
    let [by] = &status.held_back[..] else { panic!("{status:?}") };
    assert!(status.is_free() && by.starts_with("process "), "{by}");
    holds.run("COMMIT").await.expect("nobody has ended it");
}

#[tokio::test]
async fn an_examination_names_the_session_that_holds_a_name_back() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let guard = client.mutex(NAME).acquire().await.unwrap();
    let held = |findings: Vec<leasehold::store::Finding>| {
        let found = findings.into_iter().find(|it| it.topic == "fenced transactions");
        found.map(|it| it.found).unwrap()
    };
    let before = held(examine(&database.url()).await.unwrap());
    assert_eq!(before, "no transaction holds a name back");
    let fenced = Transaction::begin(&database, "READ COMMITTED").await;
    fenced.run("SET application_name = 'billing'").await.unwrap();
    fenced.fence(NAME, guard.token()).await.unwrap();
    let found = held(examine(&database.url()).await.unwrap());
    let pid = database.ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'billing'");
    assert!(found.contains(&format!("process {pid} of the server")), "{found}");
    assert!(found.contains("\"billing\"") && found.contains(NAME), "{found}");
    fenced.run("PREPARE TRANSACTION 'held'").await.unwrap();
    let found = held(examine(&database.url()).await.unwrap());
    assert!(found.contains("a prepared transaction"), "{found}");
    database.ask("COMMIT PREPARED 'held'");
}
