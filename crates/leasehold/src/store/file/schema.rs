//! The tables of the database, and the release that made them.

use leasehold_core::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::OTHER_PROGRAM;
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

/// The marks of the database, and the number of its tables.
const STATE: &str = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version";

/// Creates the tables in an empty database. Refuses a database that is not ours, or of another
/// release.
pub(crate) fn prepare(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    let behavior = TransactionBehavior::Immediate;
    let transaction = location.sql(connection.transaction_with_behavior(behavior))?;
    if is_prepared(&transaction, location)? {
        return Ok(());
    }
    let marks =
        format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};");
    location.sql(transaction.execute_batch(&[TABLES, &marks].concat()))?;
    location.sql(transaction.commit())
}

/// Whether the tables exist. Refuses a database that is not ours, or of another release.
fn is_prepared(connection: &Connection, location: &Location) -> Result<bool, StoreError> {
    let found = connection.query_row(STATE, [], |row| row.try_into());
    match location.sql(found)? {
        (0, 0, 0) => Ok(false),
        (APPLICATION_ID, VERSION, _) => Ok(true),
        (APPLICATION_ID, version, _) => Err(location.other_version(version)),
        (_, _, _) => Err(location.error(OTHER_PROGRAM)),
    }
}

/// Refuses a file that exists, was never used as a store and cannot become one. This check comes
/// before anything is made beside the file.
pub(crate) fn refuse_others_files(location: &Location) -> Result<(), StoreError> {
    let is_new = || location.database.exists() && !location.side.exists();
    if is_new() {
        location.check_rights()?;
        // Another process may be just creating the database, and this one saw it half done.
        check_read_only(location).or_else(|error| if is_new() { Err(error) } else { Ok(()) })?;
    }
    Ok(())
}

/// Checks a database without changing it: refuses what opening it would refuse.
pub(crate) fn check_read_only(location: &Location) -> Result<(), StoreError> {
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
    is_prepared(&location.sql(opened)?, location).map(drop)
}
