//! The tables of the database, and which release has made them.

use leasehold_core::{StoreError, StoreErrorKind};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::location::Location;
use super::migrate;
use super::record;

/// The layout of tables and records that this release reads and writes.
const VERSION: u32 = record::LAYOUT as u32;

/// The layout before, which it brings up to date.
const EARLIER: u32 = migrate::LAYOUT as u32;

/// Marks a database as one of leasehold's: "lshd" in ASCII.
const APPLICATION_ID: u32 = 0x6c73_6864;

const TABLES: &str = "
    CREATE TABLE lock (
        name TEXT PRIMARY KEY,
        boot TEXT NOT NULL,
        collect_at_us INTEGER NOT NULL,
        record BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO number VALUES ('highest_token_us', 0), ('tidy_at_us', 0);
";

/// The rows of records that do not lie in these.
const LOCK_ROW: &str = "
    CREATE TABLE lock_row (
        name TEXT NOT NULL,
        kind INTEGER NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (name, kind, key)
    ) STRICT, WITHOUT ROWID;
";

/// Creates the tables in an empty database; refuses one that is not ours or too new.
pub(super) fn prepare(
    connection: &mut Connection,
    location: &Location,
    is_alone: bool,
) -> Result<(), StoreError> {
    let failed = |error| location.database_error(error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = found(&transaction, location)?;
    match found {
        Found::Current => return Ok(()),
        Found::Earlier if !is_alone => return Err(location.in_use_by_earlier()),
        Found::Earlier => {
            transaction.execute_batch(LOCK_ROW).map_err(failed)?;
            migrate::records(&transaction, location)?;
        }
        Found::Nothing => {
            transaction.execute_batch(TABLES).map_err(failed)?;
            transaction.execute_batch(LOCK_ROW).map_err(failed)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        }
    }
    transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// What is in a database.
enum Found {
    /// Tables and records of this release.
    Current,
    /// Those of the release before.
    Earlier,
    Nothing,
}

/// What is in it; refuses one that is not ours, too new or too old.
fn found(connection: &Connection, location: &Location) -> Result<Found, StoreError> {
    let failed = |error| location.database_error(error);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0));
    let version = number("PRAGMA user_version").map_err(failed)?;
    let application = number("PRAGMA application_id").map_err(failed)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    if (version, application, tables) == (0, 0, 0) {
        return Ok(Found::Nothing);
    }
    if application != APPLICATION_ID {
        let shown = location.database.display();
        let text = format!("file:{shown} is a database of another program: name another path");
        return Err(StoreError::new(StoreErrorKind::Corrupt, text));
    }
    match version {
        VERSION => Ok(Found::Current),
        EARLIER => Ok(Found::Earlier),
        other => Err(location.other_version(other)),
    }
}

/// Refuses a file that is there and nobody has used as a store yet, if it cannot become one: before
/// anything is made beside it.
pub(super) fn refuse_others_files(location: &Location) -> Result<(), StoreError> {
    let is_new = || location.database.exists() && !location.side.exists();
    if !is_new() {
        return Ok(());
    }
    let (access, flags) = (Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS);
    accessat(CWD, &location.database, access, flags)
        .map_err(|error| location.io_error("use it", error.into()))?;
    match check_read_only(location) {
        // Somebody else is creating it at this moment, and it was seen half way.
        Err(_) if !is_new() => Ok(()),
        checked => checked,
    }
}

/// Looks at a database without a trace: refuses what [`Database::open`] would refuse.
pub(super) fn check_read_only(location: &Location) -> Result<(), StoreError> {
    let failed = |error| location.database_error(error);
    let mut flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = if location.log.exists() && location.shared_memory.exists() {
        Connection::open_with_flags(&location.database, flags)
    } else {
        // Without a log to read, and without creating one.
        flags |= OpenFlags::SQLITE_OPEN_URI;
        let bytes = location.database.as_os_str().as_encoded_bytes().iter();
        let path: String = bytes.map(|byte| format!("%{byte:02x}")).collect();
        Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)
    };
    found(&opened.map_err(failed)?, location).map(drop)
}
