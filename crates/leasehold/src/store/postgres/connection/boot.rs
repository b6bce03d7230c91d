//! Whether the server may have forgotten something. The row in `boot` says whether the server has
//! crashed or was promoted, and for how long nothing new is granted after that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_core::text::show_duration;
use leasehold_core::time::micros;
use leasehold_core::{Operation, StoreError, StoreErrorKind};
use tokio_postgres::Row;

use super::Taken;
use crate::mutex::Mutex;
use crate::store::postgres::options::PostgresOptions;

/// How a grant asks the row itself.
pub(super) const ASKS: &str = include_str!("../thin/may_grant.sql");

/// The facts about the row at one store.
#[derive(Debug)]
pub(crate) struct Boot {
    /// How a step begins. The settings override those of the role.
    pub(crate) begin: String,
    /// Whether nothing new is granted while something may be forgotten.
    is_guarded: bool,
    /// The longest lease that this store has reported to the database, in µs.
    longest_us: AtomicU64,
    /// Until when nothing new is granted, as of the last read of the row.
    pause: Mutex<Option<Instant>>,
}

impl Boot {
    pub(crate) fn new(settings: &PostgresOptions) -> Self {
        let span = settings.quarantine();
        Self {
            // With an older snapshot than that of READ COMMITTED, the row of a new name could be
            // made twice. A client that stops between the halves of a step delays others by one
            // second. If a client has given up, its request must not go on waiting in the server.
            begin: format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
                 SET LOCAL idle_in_transaction_session_timeout = '1s'; \
                 SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = 0; \
                 SET LOCAL synchronous_commit = 'on'",
                settings.timeout.as_millis()
            ),
            is_guarded: span.is_some(),
            longest_us: AtomicU64::new(span.map_or(0, micros)),
            pause: Mutex::default(),
        }
    }

    /// For how long nothing new is granted, as a step has read it. `None` if no client has asked
    /// yet what is forgotten.
    pub(crate) fn left(&self, row: &Row) -> Option<Duration> {
        let from_us: Option<i64> = row.get("grants_from_us");
        let from_us = if self.is_guarded { from_us? } else { 0 };
        let left_us = u64::try_from(from_us - row.get::<_, i64>("now_us"));
        Some(Duration::from_micros(left_us.unwrap_or(0)))
    }

    /// The ttl of an operation, if it is longer than all that were reported to the database.
    pub(crate) fn longer(&self, operation: &Operation) -> Option<Duration> {
        let known = self.longest_us.load(Ordering::Relaxed);
        operation.ttl().filter(|ttl| self.is_guarded && micros(*ttl) > known)
    }

    /// The rest of the quarantine, as of the last read of the row.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let until = *self.pause.lock();
        until?.checked_duration_since(Instant::now())
    }

    /// Asks whether anything is forgotten, for leases of this length; `None` if an operator says
    /// that nothing is.
    ///
    /// A session with the server itself was opened on a primary, and ends with any crash. So if
    /// nothing is forgotten, that stays true in it, until another table comes out of a dump.
    pub(crate) async fn ask(&self, on: &Taken, span: Option<Duration>) -> Result<(), StoreError> {
        if !self.is_guarded {
            on.session.allow("true".to_owned());
            return Ok(());
        }
        let longest_us = span.map_or(0, micros).max(self.longest_us.load(Ordering::Relaxed));
        let (longest, is_over) = (i64::try_from(longest_us).unwrap_or(i64::MAX), span.is_none());
        let values = values![INT8 longest, BOOL is_over];
        let asked = Instant::now();
        on.batch(&self.begin).await?;
        let ask = "SELECT *, 'leasehold.boot'::regclass::oid FROM leasehold.boot_4($1, $2)";
        let rows = on.plain(ask, &values).await?;
        on.batch("COMMIT").await?;
        self.longest_us.fetch_max(longest_us, Ordering::Relaxed);
        let left = rows.first().and_then(|row| Some((self.left(row)?, row.get::<_, u32>(2))));
        *self.pause.lock() = left.map(|(left, _)| asked + left);
        on.session.allow(match left {
            Some((Duration::ZERO, table)) if on.session.dialed.is_direct => {
                format!("'leasehold.boot'::regclass = {table}::oid")
            }
            _ => ASKS.to_owned(),
        });
        Ok(())
    }
}

/// The error that nothing new is granted.
pub(crate) fn refusal(server: &str, left: Duration) -> StoreError {
    let why = format!(
        "{server}: nothing new is granted for another {}: it may have forgotten who holds what (a \
         promotion, a crash that lost commits, data out of a backup): wait; or, only if no earlier \
         lease can be valid, use `leasehold end-quarantine`",
        show_duration(left)
    );
    StoreError::new(StoreErrorKind::Quarantined, why)
}
