//! Transactions that hang with a name that others want: they are named.

use leasehold::store::examine;

use crate::Database;
use crate::at_commit::Transaction;

const NAME: &str = "invoices/42";

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
