//! The restart guard: a server that may have forgotten something grants nothing new until every
//! lease of before has ended.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_core::text::show_duration;
use leasehold_core::{Action, Operation, StoreError, StoreErrorKind};
use redis::{FromRedisValue, Value};

use crate::store::redis::connection::Link;
use crate::store::redis::error;
use crate::store::redis::key;
use crate::store::redis::route::{is_unknown_script, run};
use crate::store::redis::script::Script;
use crate::store::redis::wire::Call;

/// How long a client that knows of a quarantine believes in it without asking: 250 ms, so that the
/// waiters of one client ask four times a second together, and an operator's word is soon heard.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// The guard of one primary.
#[derive(Debug)]
pub(super) struct Quarantine {
    key: Vec<u8>,
    /// How long nothing new is granted, and the longest ttl that may be asked for.
    span: Duration,
    /// When the server was last known to be in quarantine, and for how much longer.
    known: Mutex<Option<(Instant, Duration)>>,
}

impl Quarantine {
    pub(super) fn new(prefix: &str, span: Duration) -> Self {
        Self { key: key::boot(prefix), span, known: Mutex::default() }
    }

    /// Refuses a lease that could outlive a quarantine.
    pub(super) fn check(&self, operation: &Operation) -> Result<(), StoreError> {
        let longest = match operation {
            Operation::List { .. } => None,
            Operation::On { action, .. } => ttl(action),
            Operation::Renew(leases) => leases.iter().map(|lease| lease.ttl).max(),
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
    pub(super) fn guard(&self, run_id: &str, ends: bool) -> Call {
        let span = self.span.as_micros().to_string().into_bytes();
        let word = if ends { b"end".to_vec() } else { Vec::new() };
        Call::bare(Script::Guard, vec![self.key.clone()], vec![run_id.into(), span, word])
    }

    /// Asks, and takes note.
    pub(super) async fn ask(
        &self,
        link: &Link,
        run_id: &str,
    ) -> Result<Option<Duration>, StoreError> {
        let value = run(link, &self.guard(run_id, false)).await?;
        self.judge(link, run_id, value).await
    }

    /// Takes note of what the guard said: how long the quarantine lasts, if there is one.
    pub(super) async fn judge(
        &self,
        link: &Link,
        run_id: &str,
        value: Value,
    ) -> Result<Option<Duration>, StoreError> {
        let value = match is_unknown_script(&value) {
            true => run(link, &self.guard(run_id, false)).await?,
            false => link.check(value)?,
        };
        let left_us = u64::from_redis_value(value)
            .map_err(|_| error::nonsense(link.server(), "the guard"))?;
        let left = (left_us > 0).then(|| Duration::from_micros(left_us));
        *self.known() = left.map(|left| (Instant::now(), left));
        Ok(left)
    }

    /// Lets an acquire pass unless the server is known to be in quarantine.
    pub(super) async fn admit(&self, link: &Link, run_id: &str) -> Result<(), StoreError> {
        let known = *self.known();
        let Some((asked, left)) = known else { return Ok(()) };
        let since = asked.elapsed();
        let left = match since < ASK_EVERY {
            true => left.checked_sub(since).filter(|left| !left.is_zero()),
            false => self.ask(link, run_id).await?,
        };
        left.map_or(Ok(()), |left| Err(refusal(link.server(), left)))
    }

    /// Words for a server that is in quarantine as a client connects.
    pub(super) async fn look(
        &self,
        link: &Link,
        run_id: &str,
    ) -> Result<Option<String>, StoreError> {
        let left = self.ask(link, run_id).await?;
        Ok(left.map(|left| refusal(link.server(), left).to_string()))
    }

    /// An operator says that the server has forgotten nothing.
    pub(super) async fn end(&self, link: &Link, run_id: &str) -> Result<(), StoreError> {
        run(link, &self.guard(run_id, true)).await?;
        *self.known() = None;
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Option<(Instant, Duration)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For how long an action asks the store to keep a lease.
fn ttl(action: &Action) -> Option<Duration> {
    match action {
        Action::Acquire(request) => Some(request.ttl),
        Action::Adopt(request) => Some(request.ttl),
        Action::Reclaim(request) => Some(request.ttl),
        Action::Commit { ttl, .. } | Action::Poll { ttl, .. } | Action::Renew { ttl, .. } => {
            Some(*ttl)
        }
        Action::Cancel { .. }
        | Action::ChangeMode { .. }
        | Action::Describe { .. }
        | Action::Inspect { .. }
        | Action::Release { .. }
        | Action::Revoke { .. } => None,
    }
}

pub(super) fn refusal(server: &str, left: Duration) -> StoreError {
    let why = format!(
        "{server}: it may have forgotten who holds what (a start, a flush or a failover), so \
         nothing new is granted for another {left:.1?}: wait; or, only if no lease of before can \
         be out, use `leasehold end-quarantine`"
    );
    StoreError::new(StoreErrorKind::Quarantined, why)
}
