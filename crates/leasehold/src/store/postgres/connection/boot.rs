//! Whether the server may have forgotten something. The row in `boot` says whether the server has
//! crashed or was promoted, and for how long nothing new is granted after that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_core::text::show_duration;
use leasehold_core::time::micros;
use leasehold_core::{Operation, StoreError, StoreErrorKind};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::error;
use crate::mutex::Mutex;
use crate::store::postgres::options::PostgresOptions;

/// The facts about the row at one store.
#[derive(Debug)]
pub(crate) struct Boot {
    schema: String,
    /// Whether nothing new is granted while something may be forgotten.
    is_guarded: bool,
    /// The longest lease that this store has reported to the database, in µs.
    longest_us: AtomicU64,
    /// The cluster and the timeline that the last session has found.
    found: Mutex<Option<String>>,
    /// When the row was last read, and for how long after that nothing new is granted.
    pause: Mutex<Option<(Instant, Duration)>>,
}

/// The meaning of the row for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nothing is forgotten.
    Known,
    /// Nothing new is granted for this long.
    Quarantine(Duration),
    /// No client has checked yet.
    Unknown,
}

impl Boot {
    pub(crate) fn new(settings: &PostgresOptions) -> Self {
        let span = settings.quarantine();
        Self {
            schema: settings.schema.clone(),
            is_guarded: span.is_some(),
            longest_us: AtomicU64::new(span.map_or(0, micros)),
            found: Mutex::default(),
            pause: Mutex::default(),
        }
    }

    /// Whether this store uses the row at all.
    pub(super) fn is_needed(&self) -> bool {
        self.is_guarded
    }

    /// The meaning of a row that a step has read.
    pub(crate) fn start(&self, row: Option<i64>, now_us: i64) -> Start {
        if !self.is_needed() {
            return Start::Known;
        }
        match row {
            None => Start::Unknown,
            Some(from_us) if from_us > now_us => {
                Start::Quarantine(Duration::from_micros(from_us.abs_diff(now_us)))
            }
            Some(_) => Start::Known,
        }
    }

    /// The ttl of an operation, if it is longer than all that were reported to the database.
    pub(crate) fn longer(&self, operation: &Operation) -> Option<Duration> {
        let longest = match operation {
            Operation::On { action, .. } => action.ttl(),
            Operation::Keep(leases) => leases.iter().map(|(_, keep)| keep.ttl).max(),
            _ => None,
        };
        longest
            .filter(|ttl| self.is_guarded && micros(*ttl) > self.longest_us.load(Ordering::Relaxed))
    }

    /// Records that leases of this length were reported to the database.
    pub(crate) fn note_longest(&self, longest: Duration) {
        self.longest_us.fetch_max(micros(longest), Ordering::Relaxed);
    }

    /// The rest of the quarantine, as of the last read of the row.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let pause = *self.pause.lock();
        let left = pause.map(|(asked, left)| left.saturating_sub(asked.elapsed()));
        left.filter(|left| self.is_guarded && !left.is_zero())
    }

    /// Asks over a new session, unless its server has the data of the earlier sessions. The data
    /// differ if the server is another one, was promoted, or had its data replaced.
    pub(super) async fn greet(
        &self,
        (client, server): (&Client, &str),
        found: &str,
    ) -> Result<(), StoreError> {
        if !self.is_guarded || self.found.lock().as_deref() == Some(found) {
            return Ok(());
        }
        match self.ask((client, server), Duration::ZERO, false).await {
            // A later step reports this.
            Err(error) if error::lacks_schema(&error) || error.kind() == StoreErrorKind::Denied => {
                let ended = client.batch_execute("ROLLBACK").await;
                ended.map_err(|failure| error::request(server, failure))?;
            }
            asked => {
                asked?;
                *self.found.lock() = Some(found.to_owned());
            }
        }
        Ok(())
    }

    /// Asks whether anything is forgotten, for leases of this length. An operator may declare that
    /// nothing is forgotten.
    pub(super) async fn ask(
        &self,
        (client, server): (&Client, &str),
        longest: Duration,
        is_over: bool,
    ) -> Result<(), StoreError> {
        let longest_us = micros(longest).max(self.longest_us.load(Ordering::Relaxed));
        let schema = &self.schema;
        let text = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
             SET LOCAL synchronous_commit = 'on'; \
             SELECT * FROM {schema}.boot_2({longest_us}, {is_over}); COMMIT"
        );
        let asked = Instant::now();
        let messages = client.simple_query(&text).await;
        let messages = messages.map_err(|failure| error::request(server, failure))?;
        let number = |column: usize| {
            messages.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(column)?.parse::<i64>().ok(),
                _ => None,
            })
        };
        let (Some(now_us), Some(from_us)) = (number(0), number(1)) else {
            let text = format!("{server}: it has not said what it may have forgotten");
            return Err(StoreError::new(StoreErrorKind::Corrupt, text));
        };
        let left = u64::try_from(from_us - now_us).unwrap_or(0);
        *self.pause.lock() = Some((asked, Duration::from_micros(left)));
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
