//! The tables of the database, and the release that made them.

use leasehold_core::{StoreError, StoreErrorKind};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::location::Location;

/// The layout of the tables that this release reads and writes.
pub(crate) const VERSION: u32 = 7;

/// The mark of a database of leasehold: "lshd" in ASCII.
const APPLICATION_ID: u32 = 0x6c73_6864;

const TABLES: &str = "
    CREATE TABLE lock (
        name TEXT PRIMARY KEY,
        boot TEXT NOT NULL,
        record TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO number VALUES ('counter', 0), ('tidy_at_us', 0);
";

/// Creates the tables in an empty database. Refuses a database that is not ours, or of another
/// release.
pub(crate) fn prepare(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    let failed = |error| location.database_error(error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    if is_prepared(&transaction, location)? {
        return Ok(());
    }
    transaction.execute_batch(TABLES).map_err(failed)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// Whether the tables exist. Refuses a database that is not ours, or of another release.
fn is_prepared(connection: &Connection, location: &Location) -> Result<bool, StoreError> {
    let failed = |error| location.database_error(error);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0));
    let version = number("PRAGMA user_version").map_err(failed)?;
    let application = number("PRAGMA application_id").map_err(failed)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    if (version, application, tables) == (0, 0, 0) {
        return Ok(false);
    }
    if application != APPLICATION_ID {
        let what = " is a database of another program: name another path";
        return Err(location.error(StoreErrorKind::Corrupt, what));
    }
    if version == VERSION { Ok(true) } else { Err(location.other_version(version)) }
}

/// Refuses a file that exists, was never used as a store and cannot become one. This check comes
/// before anything is made beside the file.
pub(crate) fn refuse_others_files(location: &Location) -> Result<(), StoreError> {
    let is_new = || location.database.exists() && !location.side.exists();
    if !is_new() {
        return Ok(());
    }
    location.check_rights()?;
    match check_read_only(location) {
        // Another process is just creating the database, and this one saw it half done.
        Err(_) if !is_new() => Ok(()),
        checked => checked,
    }
}

/// Checks a database without changing it: refuses what opening it would refuse.
pub(crate) fn check_read_only(location: &Location) -> Result<(), StoreError> {
    let failed = |error| location.database_error(error);
    let mut flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = if location.log.exists() && location.shared_memory.exists() {
        Connection::open_with_flags(&location.database, flags)
    } else {
        // The database is read without a log, and none is created.
        flags |= OpenFlags::SQLITE_OPEN_URI;
        let bytes = location.database.as_os_str().as_encoded_bytes().iter();
        let path: String = bytes.map(|byte| format!("%{byte:02x}")).collect();
        Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)
    };
    is_prepared(&opened.map_err(failed)?, location).map(drop)
}
