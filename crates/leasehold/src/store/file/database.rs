//! The database: one row per name, one transaction per operation.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::model::{self, Record};
use leasehold_core::{
    Action, Addressed, ClientId, LockName, Now, Reply, StoreError, StoreErrorKind,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::RULES;
use super::bury;
use super::codec::{self, Unreadable};
use super::identity::Files;
use super::location::Location;
use super::presence::Presence;
use super::room::{self, Reserve, Room};

/// The layout of tables and records that this release reads and writes.
const VERSION: u32 = codec::LAYOUT as u32;

/// Marks a database as one of leasehold's: "lshd" in ASCII.
const APPLICATION_ID: u32 = 0x6c73_6864;

/// The largest number of the table `number`: 2⁵³ − 1, which any program reads exactly.
pub(super) const MAX_NUMBER: u64 = (1 << 53) - 1;

/// How long to wait for other programs that have the database open, such as `sqlite3`: 2 s.
/// Leasehold's own processes wait at the gate.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

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

const READ: &str = "SELECT record, boot FROM lock WHERE name = ?1";
const INSERT: &str = "INSERT INTO lock VALUES (?1, ?2, ?3, ?4)";
const UPDATE: &str = "UPDATE lock SET boot = ?2, collect_at_us = ?3, record = ?4 WHERE name = ?1";
const ROWS: &str = "SELECT name, record, boot FROM lock WHERE name >= ?1 ORDER BY name";

/// One connection to the database.
#[derive(Debug)]
pub(super) struct Database {
    location: Location,
    connection: Connection,
    boot: String,
    /// What the paths led to when it was opened.
    files: Option<Files>,
    room: Room,
}

/// What a step did, apart from changing the record.
#[derive(Debug)]
pub(super) struct Stepped {
    pub(super) reply: Reply,
    pub(super) messages: Vec<Addressed>,
    pub(super) more: bool,
    /// Whose deaths concern the attempt, if it waits.
    pub(super) watched: Vec<ClientId>,
}

impl Database {
    /// Opens the database and creates what is missing. Within one's turn at the gate. From then
    /// on `log_pages` tells how long the log was after the last transaction.
    pub(super) fn open(
        location: &Location,
        boot: String,
        log_pages: Arc<AtomicU32>,
    ) -> Result<Self, StoreError> {
        let failed = |error| location.database_error(error);
        let mut connection = connect(&location.database, log_pages).map_err(failed)?;
        prepare(&mut connection, location)?;
        let room = Room::new(&connection).map_err(failed)?;
        Ok(Self { location: location.clone(), connection, boot, files: None, room })
    }

    /// From now on the paths must lead to these files.
    pub(super) fn expect(&mut self, files: Files) {
        self.files = Some(files);
    }

    /// Whether the paths still lead to what is open. A database that was removed or replaced is
    /// nobody's any more: others may have made another under its path.
    pub(super) fn check_files(&mut self) -> Result<(), StoreError> {
        let Some(files) = self.files else { return Ok(()) };
        let lengths = files.check(&self.location)?;
        let failed = |error| self.location.database_error(error);
        self.room.note(&self.connection, lengths).map_err(failed)
    }

    /// Runs `work` in a transaction of its own: all of it is done, or nothing. Several times, if
    /// there is no room for it at first.
    pub(super) fn write<T>(
        &mut self,
        reserve: Reserve,
        work: impl Fn(&Writing<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check_files()?;
        for step in room::steps() {
            match self.try_write(reserve, &work) {
                Err(error) if error.kind() == StoreErrorKind::Full => {}
                done => return done,
            }
            let has_grown = self.room.grow(&self.connection, &self.location.log, step);
            self.check_files()?;
            // A log that was copied begins again in the room that it has. If it cannot be copied,
            // the next attempt fails as this one did.
            let _ = self.shorten_log();
            if !has_grown {
                break;
            }
        }
        self.try_write(reserve, &work)
    }

    fn try_write<T>(
        &mut self,
        reserve: Reserve,
        work: impl Fn(&Writing<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { location, connection, boot, room, .. } = self;
        let failed = |error| location.database_error(error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        if reserve == Reserve::Keep && !room.is_whole(&transaction).map_err(failed)? {
            return Err(location.full());
        }
        let writing = Writing { transaction, location, boot };
        let done = work(&writing)?;
        writing.transaction.commit().map_err(|error| match failed(error) {
            full if full.kind() == StoreErrorKind::Full => full,
            // Whether it has taken effect is for the next reader to find out.
            other => other.maybe_executed(),
        })?;
        Ok(done)
    }

    /// The number that tells this database from others; zero before it is given one.
    pub(super) fn identity(&mut self) -> Result<u64, StoreError> {
        self.write(Reserve::Use, |writing| writing.number("identity"))
    }

    pub(super) fn set_identity(&mut self, number: u64) -> Result<(), StoreError> {
        self.write(Reserve::Use, |writing| writing.set_number("identity", number))
    }

    /// Whether the paths lead to other files than those that are open, or to none.
    pub(super) fn is_replaced(&self) -> bool {
        let checked = self.files.map(|files| files.check(&self.location));
        matches!(checked, Some(Err(error)) if error.kind() == StoreErrorKind::Corrupt)
    }

    /// Copies the log into the database, without holding up anybody who writes.
    pub(super) fn shorten_log(&self) -> Result<(), StoreError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| self.location.database_error(error))
    }
}

/// A transaction under way.
pub(super) struct Writing<'a> {
    transaction: Transaction<'a>,
    location: &'a Location,
    boot: &'a str,
}

impl Writing<'_> {
    /// Runs some SQL of another module.
    pub(super) fn sql<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.transaction).map_err(|error| self.location.database_error(error))
    }

    /// Applies one action to one name.
    pub(super) fn step(
        &self,
        name: &LockName,
        mut now: Now,
        action: &Action,
        presence: &Presence,
    ) -> Result<Stepped, StoreError> {
        let before = self.read(name)?;
        let is_new = before.is_none();
        if is_new {
            // This name may have been forgotten, with its last token.
            now.token_us = now.token_us.max(self.number("highest_token_us")? + 1);
        }
        let (before, mut record) = before.unwrap_or_default();
        let mut buried = bury::the_dead(&mut record, now, presence);
        let outcome = model::step(&mut record, now, RULES, action);
        if !outcome.messages.is_empty() {
            // Somebody was granted who had not been looked at.
            buried.append(bury::the_dead(&mut record, now, presence));
        }
        buried.messages.extend(outcome.messages);
        let stepped = Stepped {
            watched: bury::concerning(&record, action, &outcome.reply),
            reply: outcome.reply,
            messages: buried.messages,
            more: outcome.more | buried.more,
        };
        if is_new && record == Record::default() {
            return Ok(stepped);
        }
        let after = codec::encode(&record);
        if before != after {
            self.store(if is_new { INSERT } else { UPDATE }, name, &record, &after)?;
        }
        Ok(stepped)
    }

    /// Names that begin with `prefix`, in order, without those whose record is damaged.
    pub(super) fn list(
        &self,
        prefix: &str,
        limit: u32,
        idle: bool,
    ) -> Result<Vec<LockName>, StoreError> {
        let mut names = Vec::new();
        self.each_row(prefix, |name, record| {
            if names.len() == limit as usize || !name.as_str().starts_with(prefix) {
                return false;
            }
            if record.is_ok_and(|record| idle || !record.is_idle()) {
                names.push(name);
            }
            true
        })?;
        Ok(names)
    }

    /// Some rows, in the order of their names, from the first name that follows `after` on.
    pub(super) fn rows(&self, after: &str, limit: u32) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each_row(after, |name, record| {
            if name.as_str() != after {
                rows.push(Row { name, record });
            }
            rows.len() < limit as usize
        })?;
        Ok(rows)
    }

    /// Calls `visit` with each row from `first` on until it says that it has seen enough.
    fn each_row(
        &self,
        first: &str,
        mut visit: impl FnMut(LockName, Result<Record, StoreError>) -> bool,
    ) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(ROWS).map_err(failed)?;
        let mut rows = statement.query([first]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            // No name of ours: whoever has put it there may look for it.
            let Ok(name) = LockName::new(row.get::<_, String>(0).map_err(failed)?) else {
                continue;
            };
            let bytes: Vec<u8> = row.get(1).map_err(failed)?;
            let boot: String = row.get(2).map_err(failed)?;
            let record = self.decode(&name, &bytes, &boot);
            if !visit(name, record) {
                break;
            }
        }
        Ok(())
    }

    /// The text of a record and what it says; everyone is forgotten if it is from before the
    /// machine was started.
    fn read(&self, name: &LockName) -> Result<Option<(Vec<u8>, Record)>, StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(READ).map_err(failed)?;
        let row = statement.query_row([name.as_str()], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?))
        });
        let Some((bytes, boot)) = row.optional().map_err(failed)? else { return Ok(None) };
        let record = self.decode(name, &bytes, &boot)?;
        Ok(Some((bytes, record)))
    }

    pub(super) fn replace(&self, name: &LockName, record: &Record) -> Result<(), StoreError> {
        self.store(UPDATE, name, record, &codec::encode(record))
    }

    pub(super) fn remove(&self, name: &LockName) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "DELETE FROM lock WHERE name = ?1";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        statement.execute([name.as_str()]).map_err(failed)?;
        Ok(())
    }

    fn store(
        &self,
        sql: &str,
        name: &LockName,
        record: &Record,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        let collect_at_us = signed(record.collect_at_us);
        statement.execute((name.as_str(), self.boot, collect_at_us, bytes)).map_err(failed)?;
        Ok(())
    }

    fn decode(&self, name: &LockName, bytes: &[u8], boot: &str) -> Result<Record, StoreError> {
        let mut record = codec::decode(bytes).map_err(|unreadable| match unreadable {
            Unreadable::Damaged => self.location.damaged(
                &format!("the record of {:?}", name.as_str()),
                "with nobody at work, delete its row in the table `lock`",
            ),
            Unreadable::Layout(found) => self.location.other_version(found.into()),
        })?;
        if boot != self.boot {
            record = Record { last_token_us: record.last_token_us, ..Record::default() };
        }
        Ok(record)
    }

    /// A number that the store keeps; zero before it is set.
    pub(super) fn number(&self, name: &str) -> Result<u64, StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "SELECT value FROM number WHERE name = ?1";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        let value = statement.query_row([name], |row| row.get::<_, i64>(0)).optional();
        u64::try_from(value.map_err(failed)?.unwrap_or(0))
            .ok()
            .filter(|value| *value <= MAX_NUMBER)
            .ok_or_else(|| {
                let remedy = "with nobody at work, set it to 0 in the table `number`";
                self.location.damaged(&format!("the number {name:?}"), remedy)
            })
    }

    pub(super) fn set_number(&self, name: &str, value: u64) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "INSERT OR REPLACE INTO number VALUES (?1, ?2)";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        statement.execute((name, signed(value))).map_err(failed)?;
        Ok(())
    }
}

/// One name and what is known of it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: LockName,
    pub(super) record: Result<Record, StoreError>,
}

/// The database's integers are signed. Times in microseconds fit by far.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn connect(path: &Path, log_pages: Arc<AtomicU32>) -> rusqlite::Result<Connection> {
    // Not CREATE: the file was created with its mode. Not shared between threads by SQLite, since
    // it is behind a mutex of ours.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // The disk is waited for when the log is copied, not at every commit. A power cut then costs
    // the last transactions, and never the file's integrity (which OFF would). Nothing is lost by
    // it that counts: a restart ends all leases, and tokens go on from the wall clock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // This replaces SQLite's own copying of the log, in the middle of somebody's commit.
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
        log_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(connection)
}

/// Creates the tables in an empty database; refuses one that is not ours or too new.
fn prepare(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    let failed = |error| location.database_error(error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    if is_empty(&transaction, location)? {
        transaction.execute_batch(TABLES).map_err(failed)?;
        transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

/// Whether nothing is in it yet; refuses one that is not ours or too new.
fn is_empty(connection: &Connection, location: &Location) -> Result<bool, StoreError> {
    let failed = |error| location.database_error(error);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0));
    let version = number("PRAGMA user_version").map_err(failed)?;
    let application = number("PRAGMA application_id").map_err(failed)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    if (version, application, tables) == (0, 0, 0) {
        return Ok(true);
    }
    if application != APPLICATION_ID {
        let shown = location.database.display();
        let text = format!("file:{shown} is a database of another program: name another path");
        return Err(StoreError::new(StoreErrorKind::Corrupt, text));
    }
    if version != VERSION {
        return Err(location.other_version(version));
    }
    Ok(false)
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
    match look(location) {
        // Somebody else is creating it at this moment, and it was seen half way.
        Err(_) if !is_new() => Ok(()),
        looked => looked,
    }
}

/// Looks at a database without a trace: refuses what [`Database::open`] would refuse.
pub(super) fn look(location: &Location) -> Result<(), StoreError> {
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
    is_empty(&opened.map_err(failed)?, location).map(drop)
}
