//! The disk space that is set aside for held leases.

use super::*;
use crate::store::file::database::Database;
use crate::store::file::disk_space::{RESERVE, Reserve};
use crate::store::file::location::Location;
use crate::store::file::transaction::Site;

#[test]
fn what_is_set_aside_is_there_whatever_was_written_and_copied() {
    let place = Place::new();
    drop(place.open());
    let location = Location::check(&place.path()).unwrap();
    let access = Access::of(&place.path()).unwrap();
    let liveness = Arc::new(Liveness::open(&location, access).unwrap());
    let clock = Arc::new(place.clock.clone());
    let site = Arc::new(Site { location, boot: "first".into(), clock, liveness, queued: 0.into() });
    let mut database = Database::open(&site, true).unwrap();
    for round in 0..40 {
        let pages = database
            .write(Reserve::Keep, |ours| {
                ours.sql(|transaction| {
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
