//! The disk space that is set aside for held leases.

use std::cell::RefCell;

use super::*;
use crate::store::file::database::{Database, copy_log};
use crate::store::file::disk_space::{RESERVE, Reserve};

#[test]
fn what_is_set_aside_is_there_whatever_was_written_and_copied() {
    let place = Place::new();
    let clock = Arc::new(place.clock.clone());
    let mut database = Database::open(&place.path(), "first".into(), clock).unwrap();
    for round in 0..40 {
        let fill = |transaction: &rusqlite::Transaction<'_>| {
            let sql = "INSERT INTO number VALUES (?1, 1)";
            let name = |number| format!("{round}/{number}/{:>90}", "");
            (0..100).try_for_each(|number| transaction.execute(sql, [name(number)]).map(drop))
        };
        database.write(Reserve::Keep, |ours| ours.sql(fill)).unwrap();
        // The next transaction that asks for something new restores the pages that this one took
        // from the reserve.
        let sql = "SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count";
        let count = |transaction: &rusqlite::Transaction<'_>| {
            transaction.query_row(sql, [], |row| row.try_into())
        };
        let counted = database.write(Reserve::Keep, |ours| ours.sql(count));
        let (free, pages): (i64, i64) = counted.unwrap();
        // SQLite then cuts the file, if the whole log was copied.
        copy_log(&Connection::open(place.path()).unwrap()).unwrap();
        let length = fs::metadata(place.path()).unwrap().len() as i64;
        assert!(free >= RESERVE as i64 && length >= pages * 4096, "{length}: {free} of {pages}");
    }
}

#[test]
fn what_a_full_quota_or_a_limit_refuses_is_tried_again_with_the_log_copied() {
    let place = Place::new();
    let clock = Arc::new(place.clock.clone());
    let mut database = Database::open(&place.path(), "first".into(), clock).unwrap();
    for code in [rusqlite::ffi::SQLITE_FULL, 778, 1546, 4874] {
        let failed = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let failed = RefCell::new(Some(failed));
        let work = |_: &rusqlite::Transaction<'_>| failed.take().map_or(Ok(()), Err);
        database.write(Reserve::Use, |ours| ours.sql(work)).unwrap();
        assert!(failed.take().is_none(), "{code}");
    }
}
