//! Rows that fill pages, names that are forgotten, and the log records of a step.

use leasehold::Client;
use leasehold::error::StoreErrorKind;
use leasehold::{Error, FencingToken};
use tokio_postgres::SimpleQueryMessage;

use crate::Database;

fn kind(refused: Error) -> StoreErrorKind {
    match refused {
        Error::Store(error) => error.kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_row_turns_a_page_after_64_changes_and_says_the_same() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let mut last = None;
    for _ in 0..70 {
        let guard = client.mutex("a").acquire().await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
    let rows = database.ask("SELECT count(*), max(epoch) FROM @.lock");
    assert_eq!(rows, "1|3", "140 changes");
}

#[tokio::test]
async fn a_snapshot_that_stays_open_does_not_slow_a_name_down() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    let report = database.session().await;
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    report.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    for _ in 0..500 {
        client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    }
    let session = database.session().await;
    let schema = &database.schema;
    let acquire = format!(
        "EXPLAIN (ANALYZE, BUFFERS) SELECT {schema}.quick_acquire_1('{{a}}', '{{me}}', \
         '{{me}}', '{{30000000}}', '{{9000000000000000}}', '{{1}}', '', true, '20s')"
    );
    let release =
        format!("SELECT ({schema}.quick_end_1('{{a}}', '{{me}}', '{{false}}', 1, '20s'))[1] > 0");
    let mut pages = 0;
    // The first step fills the caches of the session.
    for _ in 0..2 {
        let plan = texts(&session.simple_query(&acquire).await.unwrap());
        let buffers = plan.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared "));
        let counts = buffers.unwrap().split([' ', '=']).filter_map(|word| word.parse::<u32>().ok());
        pages = counts.sum();
        assert_eq!(texts(&session.simple_query(&release).await.unwrap()), ["t"], "{plan:?}");
    }
    // Each change leaves a version that the snapshot keeps: a thousand of them fill 50 pages.
    assert!(pages <= 40, "{pages} pages");
    report.batch_execute("COMMIT").await.unwrap();
}

/// The first column of what was selected.
fn texts(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0)?.to_owned()),
        _ => None,
    });
    rows.collect()
}

#[tokio::test]
async fn a_name_that_is_forgotten_begins_above_all_that_were() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    client.mutex("old").acquire().await.unwrap().release().await.unwrap();
    let held = client.mutex("held").acquire().await.unwrap();
    // As if the clock had been ahead, and was then set back.
    let ahead = "UPDATE @.lock \
        SET collect_at_us = 0, last_token = last_token + (4096::bigint << 30) \
        WHERE name = 'old' RETURNING last_token";
    let highest: u64 = database.ask(ahead).parse().unwrap();
    assert_eq!(database.ask("SELECT @.tidy_1('', 200) IS NULL"), "t", "it came to the end");
    assert_eq!(database.ask("SELECT string_agg(name, ',') FROM @.lock"), "held");
    let anew = client.mutex("old").acquire().await.unwrap();
    assert!(Some(anew.token()) > FencingToken::from_number(highest), "{highest}");
    assert!(held.is_held());
}

#[tokio::test]
async fn what_is_only_asked_about_leaves_no_row_and_a_refusal_changes_none() {
    let Some(database) = Database::new() else { return };
    let (client, other) = (database.client().await, database.client().await);
    let _ = client.admin().inspect("a").await.unwrap();
    assert_eq!(database.ask("SELECT count(*) FROM @.lock"), "0");
    let _held = client.mutex("a").acquire().await.unwrap();
    let row = "SELECT xmin, ctid FROM @.lock";
    let before = database.ask(row);
    assert!(other.mutex("a").try_acquire().await.unwrap().is_none());
    assert_eq!(database.ask(row), before);
}

#[tokio::test]
async fn a_damaged_record_is_told_and_left_as_it_is() {
    let Some(database) = Database::new() else { return };
    let client = database.client().await;
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    database.ask("UPDATE @.lock SET record = '\\x0142'");
    assert_eq!(kind(client.mutex("a").acquire().await.unwrap_err()), StoreErrorKind::Corrupt);
    database.ask("UPDATE @.lock SET record = '\\x63'");
    assert_eq!(kind(client.mutex("a").acquire().await.unwrap_err()), StoreErrorKind::Version);
    assert_eq!(database.ask("SELECT record FROM @.lock"), "\\x63");
    client.mutex("b").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_schema_of_a_later_release_is_refused_and_left_as_it_is() {
    let Some(database) = Database::new() else { return };
    database.client().await.close().await.unwrap();
    database.ask("UPDATE @.number SET value = 2 WHERE name = 'layout'");
    let refused = Client::connect(&database.url()).await.unwrap_err();
    assert_eq!(kind(refused), StoreErrorKind::Version);
    assert_eq!(database.ask("SELECT value FROM @.number WHERE name = 'layout'"), "2");
}

#[tokio::test]
async fn many_who_connect_at_once_make_one_schema() {
    let Some(database) = Database::new() else { return };
    let clients = (0..6).map(|_| database.client());
    let clients = futures_util::future::join_all(clients).await;
    assert_eq!(clients.len(), 6);
    assert_eq!(database.ask("SELECT value FROM @.number WHERE name = 'layout'"), "1");
}
