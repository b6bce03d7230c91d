//! The disk space that is set aside for held leases.

use super::*;
use crate::store::file::database::Database;
use crate::store::file::database::disk_space::{RESERVE, Reserve};

use crate::store::file::place::{Files, Location};

#[test]
fn what_is_set_aside_is_there_whatever_was_written_and_copied() {
    let place = Place::new();
    drop(place.open());
    let location = Location::check(&place.path()).unwrap();
    let mut database =
        Database::open(&location, "first".into(), RULES, Arc::default(), true).unwrap();
    database.expect(Files::at(&location).unwrap().0);
    for round in 0..40 {
        let pages = database
            .write(Reserve::Keep, |writing| {
                writing.sql(|transaction| {
                    let sql = "INSERT INTO number VALUES (?1, 1)";
                    for number in 0..100 {
                        transaction.execute(sql, [format!("{round}/{number}/{:>90}", "")])?;
                    }
                    transaction.query_row("PRAGMA page_count", [], |row| row.get::<_, u32>(0))
                })
            })
            .unwrap();
        // The next transaction that asks for something new restores the pages that this one took
        // from the reserve.
        database.write(Reserve::Keep, |_| Ok(())).unwrap();
        // SQLite then cuts the file, if the whole log was copied.
        database.shorten_log().unwrap();
        let length = fs::metadata(place.path()).unwrap().len();
        assert!(length >= (u64::from(pages) + RESERVE) * 4096, "{length} for {pages} pages");
    }
}
