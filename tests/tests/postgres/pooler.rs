//! Behind a pooler, clients share what a process of the server has prepared.

use futures_util::future::join_all;
use leasehold::Client;
use leasehold_testkit::harness::until;

/// Two clients take and release twelve names each, all at once; before, one has a name alone.
async fn pairs(clients: &[Client]) {
    let pair = async |number: usize| {
        let name = format!(r#"it's \' "a\\", {{ä,😀}} NULL -- {number}"#);
        clients[number % 2].mutex(name).acquire().await.unwrap().release().await.unwrap();
    };
    pair(0).await;
    join_all((0..24).map(pair)).await;
}

#[tokio::test]
async fn behind_a_pooler_a_statement_is_planned_once_for_all_clients_until_that_is_undone() {
    let Some((server, bouncer)) = crate::pooled(1) else { return };
    // No value depends on these settings.
    for setting in ["standard_conforming_strings", "backslash_quote"] {
        server.query(&format!("ALTER ROLE ALL SET {setting} = off")).unwrap();
    }
    let separate = |number| format!("{}&connections={number}", bouncer.url());
    let client = async |number| Client::connect(separate(number)).await.unwrap();
    let clients = join_all([4, 5].map(client)).await;
    pairs(&clients).await;
    // No general step is needed any more.
    server.query("ALTER FUNCTION leasehold.open_4 RENAME TO gone").unwrap();
    let frequent = "FROM pg_prepared_statements WHERE statement LIKE '%SKIP LOCKED%'";
    let texts = bouncer.query(&format!("SELECT string_agg(statement, ';') {frequent}")).unwrap();
    let retype = |to: &str| format!("ALTER TABLE leasehold.lease ALTER counter TYPE {to}");
    let retyped = format!("DEALLOCATE ALL; {}; {texts}; {}", retype("numeric"), retype("bigint"));
    for undo in ["SELECT", "DISCARD ALL", "RECONNECT", &retyped] {
        match undo {
            "RECONNECT" => bouncer.command(undo).unwrap(),
            sql => drop(bouncer.query(sql).unwrap()),
        }
        // The server looks five times whether plans for the values would be better.
        let planned = async || {
            pairs(&clients).await;
            let counts = "SELECT count(*) FILTER (WHERE generic_plans > 5) >= 4, max(custom_plans)";
            bouncer.query(&format!("{counts} {frequent}")).unwrap() == "t|5\n"
        };
        until(&format!("after {undo} plans for one name and for several stay"), planned).await;
    }
    for name in bouncer.query(&format!("SELECT name {frequent}")).unwrap().lines() {
        let explain = format!("EXPLAIN EXECUTE {name}(NULL, NULL, NULL, NULL, NULL)");
        let plan = bouncer.query(&explain).unwrap();
        assert!(plan.contains("(epoch = n.epoch)"), "it reads all epochs of a name: {plan}");
    }
}
