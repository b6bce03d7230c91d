//! Databases as written by each release: `tests/compatibility/VERSION/file.sql`.

use std::fmt::Write as _;
use std::path::PathBuf;

use leasehold_core::model::{Gate, State};

use super::*;

/// The variable that asks to write the file for the present version of the packages.
const WRITE: &str = "LEASEHOLD_WRITE_FORMATS";

/// Each release that changed the format of the database, with its database.
fn releases() -> Vec<(PathBuf, String)> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compatibility");
    let files = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path().join("file.sql"));
    files.map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

/// The database as SQL: its tables and their content.
fn dump(connection: &Connection) -> String {
    let mut sql = String::new();
    for pragma in ["application_id", "user_version"] {
        let read = format!("PRAGMA {pragma}");
        let value: u32 = connection.query_row(&read, [], |row| row.get(0)).unwrap();
        writeln!(sql, "{read} = {value};").unwrap();
    }
    let rows = "SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL
        UNION ALL SELECT format('INSERT INTO number VALUES (%Q, %d);', name, value) FROM number
        UNION ALL SELECT format('INSERT INTO lock VALUES (%Q, %Q, %Q);', name, boot, record)
            FROM lock";
    let mut rows = connection.prepare(rows).unwrap();
    for line in rows.query_map([], |row| row.get::<_, String>(0)).unwrap() {
        writeln!(sql, "{}", line.unwrap()).unwrap();
    }
    sql
}

#[tokio::test]
async fn a_database_is_as_a_release_left_it_or_has_another_version() {
    let place = Place::new();
    let store = place.open();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
    on(&store, "a", acquire(BOB, 1, true)).await;
    let today = dump(&Connection::open(place.path()).unwrap());
    if let Some(wanted) = std::env::var_os(WRITE) {
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compatibility");
        let release = all.join(env!("CARGO_PKG_VERSION"));
        fs::create_dir_all(&release).unwrap();
        fs::write(release.join("file.sql"), &today).unwrap();
        println!("{WRITE}={}: written to {}", wanted.display(), release.display());
    }
    let version = |sql: &str| sql.lines().nth(1).map(str::to_owned);
    let releases = releases();
    if releases.iter().all(|(_, then)| *then != today) {
        let is_new = releases.iter().all(|(_, then)| version(then) != version(&today));
        assert!(is_new, "another database of the same version: raise schema::VERSION\n{today}");
        panic!("a new version: run this test with {WRITE}=1 and add the file that it writes");
    }
}

#[tokio::test]
async fn a_database_of_each_release_is_used_on_or_refused_by_its_version() {
    for (file, sql) in releases() {
        let place = Place::new();
        Connection::open(place.path()).unwrap().execute_batch(&sql).unwrap();
        if !sql.contains(&format!("user_version = {};", schema::VERSION)) {
            let error = place.refusal();
            assert_eq!(error.kind(), StoreErrorKind::Version, "{}: {error}", file.display());
            continue;
        }
        // The holder releases, and the waiter is next.
        let store = place.open();
        let record = place.record(&name("a")).unwrap();
        assert_eq!((record.holders(), record.queue.len()), (vec![ALICE], 1));
        assert_eq!(on(&store, "a", release(ALICE, 1)).await, Reply::Ended(true));
        let record = place.record(&name("a")).unwrap();
        assert_eq!(record.holders(), [BOB]);
        let Some(Gate { state: State::Awaited(hold), .. }) = record.gate else { panic!() };
        let before = FencingToken::from_micros(hold.token.unwrap()).get();
        // Another boot ends all leases, and tokens keep growing.
        drop(store);
        let store = place.boot("second");
        let after = token(on(&store, "a", acquire(ALICE, 2, true)).await);
        assert!(after > before, "{after} after {before}");
    }
}
