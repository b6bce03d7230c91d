//! Guarded writes: the resource itself refuses a holder that was overtaken.
//!
//! A lease cannot stop a process that slept past the end of the lease. The resource that the
//! process writes to can stop it, if the resource remembers the highest token it has seen and
//! refuses lower ones. A holder that reads before it writes **installs its token first, and then
//! reads**: otherwise an older holder may still change what it has read.
//!
//! | the resource is | take |
//! |---|---|
//! | a value, stock or a queue in Redis, in a file or in memory | the crate `leasehold-data` |
//! | data in the same PostgreSQL database as the locks | [`postgres`] |
//! | a row of another SQL database | [`Dialect`] |
//! | a service behind HTTP | [`to_header`], [`from_header`]; inside it [`Fences`] or [`Dialect`] |
//! | a service of one process | [`Fences::install`] behind its own mutex |
//!
//! Only the tokens of exclusive leases are fit for fencing: a later reader's token would shut out
//! an earlier reader that is still valid.

pub mod postgres;

use leasehold_core::text::percent_decode;
use leasehold_core::{FencingToken, InvalidInput, LockName};

use crate::guard::Guard;

pub use leasehold_core::{Fence, Fences};

impl From<&Guard> for Fence {
    fn from(guard: &Guard) -> Self {
        Self { lock: guard.name().clone(), token: guard.token() }
    }
}

/// The HTTP header that carries a token and the name of its lock:
/// `Fencing-Token: 829475028347; lock=invoices%2F42`.
///
/// A service answers an overtaken token with 409 (Conflict), because no client repeats such a
/// request by itself.
pub const HEADER: &str = "Fencing-Token";

/// The value of the [`HEADER`].
pub fn to_header(fence: &Fence) -> String {
    let mut value = format!("{}; lock=", fence.token);
    for byte in fence.lock.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            value.push(char::from(byte));
        } else {
            value.push_str(&format!("%{byte:02X}"));
        }
    }
    value
}

/// Reads the value of a [`HEADER`].
///
/// # Errors
///
/// [`InvalidInput`] says what is wrong with the value: answer the request with 400.
///
/// # Examples
///
/// ```
/// use leasehold::fence::{Fences, from_header};
///
/// // A service that keeps its data in memory keeps the tokens there too, behind the same mutex.
/// let mut fences = Fences::default();
/// let fence = from_header("17; lock=invoices%2F42")?;
/// assert_eq!(fences.install(&fence), Ok(()));
/// let late = from_header("16; lock=invoices%2F42")?;
/// let newest = fences.install(&late).unwrap_err();
/// println!("409: {}", late.overtaken_by(newest));
/// # Ok::<(), leasehold::error::InvalidInput>(())
/// ```
pub fn from_header(value: &str) -> Result<Fence, InvalidInput> {
    let wrong = || {
        let shown: String =
            value.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
        InvalidInput::new("header", format!("{HEADER}: {shown:?} is not `TOKEN; lock=NAME`"))
    };
    let (token, name) = value.split_once(';').ok_or_else(wrong)?;
    let name = name.trim().strip_prefix("lock=").ok_or_else(wrong)?;
    let token: FencingToken = token.trim().parse()?;
    let name = percent_decode(name).ok_or_else(wrong)?;
    Ok(Fence { lock: LockName::new(name)?, token })
}

/// An SQL database that keeps the highest token of each lock in a table, and the statements for it.
///
/// Use the statements in one transaction. Call [`install`](Dialect::install) first: it locks the
/// row of this lock until the end of the transaction. If [`newest`](Dialect::newest) then returns
/// another token than yours, roll back and give up ([`Fence::overtaken_by`]). Otherwise read,
/// decide and write what the lock protects, in any tables, and commit. Both statements take the
/// name of the lock first; `install` takes the token second, as a signed 64-bit integer, into which
/// every token fits.
///
/// For a row that only one statement writes, an extra column replaces the table: `UPDATE invoice
/// SET …, fence = $token WHERE id = 42 AND fence <= $token`. If no row changes, a later holder has
/// written.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "file")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::fence::{Dialect, Fence};
///
/// # let mut connection = rusqlite::Connection::open_in_memory()?;
/// # let fence = leasehold::fence::from_header("17; lock=invoices%2F42")?;
/// const SQL: Dialect = Dialect::Sqlite;
/// connection.execute(SQL.table(), [])?; // once
///
/// let transaction = connection.transaction()?;
/// let name = fence.lock.as_str();
/// let token = i64::from(fence.token);
/// transaction.execute(SQL.install(), (name, token))?;
/// let newest: i64 = transaction.query_row(SQL.newest(), [name], |row| row.get(0))?;
/// assert_eq!(newest, token); // else roll back: overtaken
/// // … read, decide, write …
/// transaction.commit()?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "file"))]
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// MySQL 8 or MariaDB 10.5, with InnoDB, at any isolation level.
    MySql,
    /// PostgreSQL, at any isolation level. Above READ COMMITTED, repeat the transaction after a
    /// serialization failure, as usual.
    PostgreSql,
    /// SQLite. Begin the transaction with `BEGIN IMMEDIATE`, as for every transaction that writes.
    Sqlite,
}

impl Dialect {
    /// The statement that creates the table, if it does not exist.
    pub const fn table(self) -> &'static str {
        match self {
            // A name has up to 512 bytes, and names are compared byte by byte.
            Self::MySql => {
                "CREATE TABLE IF NOT EXISTS leasehold_fence \
                 (lock_name VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL)"
            }
            Self::PostgreSql => {
                "CREATE TABLE IF NOT EXISTS leasehold_fence \
                 (lock_name TEXT COLLATE \"C\" PRIMARY KEY, token BIGINT NOT NULL)"
            }
            Self::Sqlite => {
                "CREATE TABLE IF NOT EXISTS leasehold_fence \
                 (lock_name TEXT PRIMARY KEY, token INTEGER NOT NULL) STRICT, WITHOUT ROWID"
            }
        }
    }

    /// The statement that installs a token, unless a higher one is stored, and locks the row of the
    /// lock. Its parameters are the name and the token.
    pub const fn install(self) -> &'static str {
        match self {
            Self::MySql => {
                "INSERT INTO leasehold_fence (lock_name, token) VALUES (?, ?) \
                 ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))"
            }
            // It updates the row even if the stored token is higher, because only an update locks
            // the row.
            Self::PostgreSql => {
                "INSERT INTO leasehold_fence (lock_name, token) VALUES ($1, $2) \
                 ON CONFLICT (lock_name) DO UPDATE \
                 SET token = GREATEST(leasehold_fence.token, excluded.token)"
            }
            Self::Sqlite => {
                "INSERT INTO leasehold_fence (lock_name, token) VALUES (?1, ?2) \
                 ON CONFLICT (lock_name) DO UPDATE SET token = max(token, excluded.token)"
            }
        }
    }

    /// The statement that reads the highest token seen, to be run after
    /// [`install`](Dialect::install). Its parameter is the name.
    pub const fn newest(self) -> &'static str {
        match self {
            Self::MySql => "SELECT token FROM leasehold_fence WHERE lock_name = ? FOR UPDATE",
            Self::PostgreSql => "SELECT token FROM leasehold_fence WHERE lock_name = $1",
            Self::Sqlite => "SELECT token FROM leasehold_fence WHERE lock_name = ?1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_carries_any_name_and_token() {
        for name in ["a", "invoices/42", "日本 \"x\"; lock=%", "{user}~1"] {
            let lock = LockName::new(name).unwrap();
            let fence = Fence { lock, token: FencingToken::from_number(i64::MAX as u64).unwrap() };
            let value = to_header(&fence);
            assert!(value.is_ascii() && !value.contains('"'), "{value}");
            assert_eq!(from_header(&value).unwrap(), fence);
        }
    }

    #[test]
    fn a_bad_header_is_refused_in_one_line() {
        for wrong in [
            "",
            "17",
            "17; name=a",
            "0; lock=a",
            "x; lock=a",
            "1; lock=",
            "1; lock=%4",
            "1; lock=%FF",
        ] {
            let refusal = from_header(wrong).unwrap_err().to_string();
            assert_eq!(refusal.lines().count(), 1, "{wrong:?}: {refusal}");
        }
    }

    #[cfg(feature = "file")]
    const SQL: Dialect = Dialect::Sqlite;

    /// Adds to the balance under a lease. Returns the token that has overtaken the lease, if there
    /// is one.
    #[cfg(feature = "file")]
    fn deposit(connection: &mut rusqlite::Connection, fence: &Fence, amount: i64) -> Option<i64> {
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let (name, token) = (fence.lock.as_str(), i64::from(fence.token));
        transaction.execute(SQL.install(), (name, token)).unwrap();
        let newest: i64 = transaction.query_row(SQL.newest(), [name], |row| row.get(0)).unwrap();
        if newest != token {
            return Some(newest);
        }
        transaction.execute("UPDATE account SET balance = balance + ?1", [amount]).unwrap();
        transaction.commit().unwrap();
        None
    }

    #[cfg(feature = "file")]
    #[test]
    fn an_sql_database_refuses_a_holder_that_was_overtaken() {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute(SQL.table(), []).unwrap();
        connection.execute("CREATE TABLE account (balance INTEGER)", []).unwrap();
        connection.execute("INSERT INTO account VALUES (0)", []).unwrap();
        let fence = |lock, token| Fence {
            lock: LockName::new(lock).unwrap(),
            token: FencingToken::from_number(token).unwrap(),
        };
        assert_eq!(deposit(&mut connection, &fence("a", 5), 100), None);
        assert_eq!(deposit(&mut connection, &fence("a", 7), 10), None);
        assert_eq!(deposit(&mut connection, &fence("a", 7), 10), None, "the same holder goes on");
        assert_eq!(deposit(&mut connection, &fence("a", 5), 1), Some(7));
        assert_eq!(deposit(&mut connection, &fence("b", 1), 1000), None, "another lock");
        let sum: i64 =
            connection.query_row("SELECT balance FROM account", [], |r| r.get(0)).unwrap();
        assert_eq!(sum, 1120);
    }
}
