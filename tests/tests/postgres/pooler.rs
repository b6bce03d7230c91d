//! Behind a pooler, clients share what a process of the server has prepared.

use futures_util::future::join_all;
use leasehold::Client;
use leasehold_testkit::harness::{acquiring, queued, until};

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

/// Functions that fit the values of statements better than those of the server.
const TRAPS: &str = "cardinality(text[]) RETURNS int; array_to_string(text[], text) RETURNS text; \
    count(text) RETURNS bigint; quote_ident(name) RETURNS text; \
    hashtextextended(text, int) RETURNS bigint; concat(text, text, bigint, text) RETURNS text; \
    concat(text, text, text, bigint, text) RETURNS text; \
    concat(text, bigint, text, bigint, text, text, text) RETURNS text; \
    concat_ws(text, text, bigint, bigint, bigint, text) RETURNS text; \
    concat_ws(text, text, text, bigint, bigint) RETURNS text; \
    joined(text[], text) RETURNS text[]; equal(text[], text[]) RETURNS boolean; \
    times(float8, int) RETURNS float8; times(numeric, int) RETURNS numeric";
const OPERATORS: &str = "\
    CREATE OPERATOR public.|| (LEFTARG = text[], RIGHTARG = text, FUNCTION = joined); \
    CREATE OPERATOR public.= (LEFTARG = text[], RIGHTARG = text[], FUNCTION = equal); \
    CREATE OPERATOR public.* (LEFTARG = float8, RIGHTARG = int, FUNCTION = times); \
    CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = int, FUNCTION = times)";

#[tokio::test]
async fn through_a_pooler_no_function_of_a_stranger_is_called_and_no_default_stops_the_sweep() {
    let Some((server, bouncer)) = crate::pooled(4) else { return };
    server.query("CREATE SEQUENCE public.caught").unwrap();
    for made in TRAPS.split("; ") {
        // No rollback takes the number back.
        let body = "BEGIN PERFORM nextval('public.caught'); RAISE 'caught'; END";
        server.query(&format!("CREATE FUNCTION {made} LANGUAGE plpgsql AS $${body}$$")).unwrap();
    }
    server.query(OPERATORS).unwrap();
    let client = Client::connect(&bouncer.url()).await.unwrap();
    let other = Client::connect(format!("{}&connections=1", bouncer.url())).await.unwrap();
    // The first time makes the rows.
    for _ in 0..2 {
        let guard = client.mutex("a").acquire().await.unwrap();
        guard.renew().await.unwrap();
        let waiting = acquiring(other.mutex("a"));
        queued(&client, "a", 1).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        client.rwlock("b").read().acquire().await.unwrap().release().await.unwrap();
        assert_eq!(client.admin().list("", 10).await.unwrap().len(), 0);
    }
    leasehold::store::examine(&bouncer.url()).await.unwrap();
    assert_eq!(server.query("SELECT is_called FROM public.caught").unwrap(), "f\n");
    server.query("ALTER ROLE ALL SET default_transaction_read_only = on").unwrap();
    bouncer.command("RECONNECT").unwrap();
    let rows = async || server.query("SELECT count(*) FROM leasehold.lease").unwrap();
    until("the rows are swept", async || rows().await == "0\n").await;
}
