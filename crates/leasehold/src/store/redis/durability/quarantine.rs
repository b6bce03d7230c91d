//! Quarantine after a restart: a server that may have forgotten something grants nothing new until
//! every lease of before has ended.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_core::text::show_duration;
use leasehold_core::{Operation, StoreError, StoreErrorKind};
use redis::{FromRedisValue, Value};

use crate::store::redis::connection::call::Call;
use crate::store::redis::connection::eval::{is_unknown_script, run};
use crate::store::redis::connection::{Connection, error};
use crate::store::redis::layout::key;
use crate::store::redis::layout::script::Script;

/// How long a client that knows of a quarantine believes in it without asking: 250 ms, so that the
/// waiters of one client ask four times a second together, and soon know that an operator has ended
/// it.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// The restart check of one primary.
#[derive(Debug)]
pub(crate) struct Quarantine {
    key: Vec<u8>,
    /// How long nothing new is granted, and the longest ttl that may be asked for.
    span: Duration,
    /// When the server was last known to be in quarantine, and for how much longer.
    known: Mutex<Option<(Instant, Duration)>>,
}

impl Quarantine {
    pub(crate) fn new(prefix: &str, span: Duration) -> Self {
        Self { key: key::boot(prefix), span, known: Mutex::default() }
    }

    /// Refuses a lease that could outlive a quarantine.
    pub(crate) fn check(&self, operation: &Operation) -> Result<(), StoreError> {
        let longest = match operation {
            Operation::On { action, .. } => action.ttl(),
            Operation::Renew(leases) => leases.iter().map(|lease| lease.ttl).max(),
            _ => None,
        };
        let Some(longest) = longest.filter(|longest| *longest > self.span) else { return Ok(()) };
        let why = format!(
            "a ttl of {} is longer than the quarantine of {}, so a restart could end it unseen: \
             ask for less, or raise quarantine= in every store URL",
            show_duration(longest),
            show_duration(self.span)
        );
        Err(StoreError::new(StoreErrorKind::Unsupported, why))
    }

    /// The call that asks whether the server has forgotten anything; or, if `ends`, that says for
    /// an operator that it has not.
    pub(crate) fn question(&self, run_id: &str, ends: bool) -> Call<Value> {
        let span = self.span.as_micros().to_string().into_bytes();
        let word = if ends { b"end".to_vec() } else { Vec::new() };
        let args = vec![run_id.into(), span, word];
        Call::new(Script::BootRecord.text(), vec![self.key.clone()], args, Ok)
    }

    /// Asks, and takes note.
    pub(crate) async fn ask(
        &self,
        connection: &Connection,
        run_id: &str,
    ) -> Result<Option<Duration>, StoreError> {
        let value = run(connection, &self.question(run_id, false), false).await?;
        self.judge(connection, run_id, value).await
    }

    /// Takes note of what the boot record says: how long the quarantine lasts, if there is one.
    pub(crate) async fn judge(
        &self,
        connection: &Connection,
        run_id: &str,
        value: Value,
    ) -> Result<Option<Duration>, StoreError> {
        let value = match is_unknown_script(&value) {
            true => run(connection, &self.question(run_id, false), false).await?,
            false => connection.check(value)?,
        };
        let left_us = u64::from_redis_value(value)
            .map_err(|_| error::unexpected_reply(connection.server(), "the boot record"))?;
        let left = (left_us > 0).then(|| Duration::from_micros(left_us));
        *self.known() = left.map(|left| (Instant::now(), left));
        Ok(left)
    }

    /// Lets an acquire pass unless the server is known to be in quarantine.
    pub(crate) async fn admit(
        &self,
        connection: &Connection,
        run_id: &str,
    ) -> Result<(), StoreError> {
        let known = *self.known();
        let Some((asked, left)) = known else { return Ok(()) };
        let since = asked.elapsed();
        let left = match since < ASK_EVERY {
            true => left.checked_sub(since).filter(|left| !left.is_zero()),
            false => self.ask(connection, run_id).await?,
        };
        left.map_or(Ok(()), |left| Err(refusal(connection.server(), left)))
    }

    /// A warning if the server is in quarantine as a client connects.
    pub(crate) async fn warning(
        &self,
        connection: &Connection,
        run_id: &str,
    ) -> Result<Option<String>, StoreError> {
        let left = self.ask(connection, run_id).await?;
        Ok(left.map(|left| refusal(connection.server(), left).to_string()))
    }

    /// An operator says that the server has forgotten nothing.
    pub(crate) async fn end(
        &self,
        connection: &Connection,
        run_id: &str,
    ) -> Result<(), StoreError> {
        run(connection, &self.question(run_id, true), false).await?;
        *self.known() = None;
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Option<(Instant, Duration)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn refusal(server: &str, left: Duration) -> StoreError {
    let left = show_duration(left);
    let why = format!(
        "{server}: the server may have forgotten who holds what (a start, a flush or a failover), \
         so nothing new is granted for another {left}: wait; or, only if no lease of before can \
         be out, use `leasehold end-quarantine`"
    );
    StoreError::new(StoreErrorKind::Quarantined, why)
}
