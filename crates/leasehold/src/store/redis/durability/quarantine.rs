//! Quarantine after a restart: a server that may have forgotten something grants nothing new until
//! all earlier leases have ended.
//!
//! A boot record, stored with the locks, says to which run of which server the locks belong, and
//! since when. A single primary has one boot record. In a cluster, each slot has one. A slot that
//! moves takes its locks along, and with them the losses of its server:
//!
//! - *Restart, failover, flush.* The record is of another run, or gone. The first client that
//!   notices begins the quarantine of the slot, and [asks about the other
//!   slots](Quarantine::spread) of that server: otherwise a slot that nobody uses for weeks would
//!   be in quarantine weeks later.
//! - *A slot that comes from another server* has that server's record, or none. Nobody can know
//!   what the other server had forgotten, so the quarantine begins at the new server. If there were
//!   one record for each primary, a slot that left a server in quarantine would be free at the next
//!   server.
//! - *While a slot is on its way*, its keys are at two servers, and the record at one of them. No
//!   record is written meanwhile: a record at both servers would keep the slot from moving. Nothing
//!   new is granted for a key at the server to which the slot moves, nor while no server answers
//!   for the record.
//! - *A slot that comes back* brings the record of the server that had it meanwhile, if anybody
//!   used it there. If nobody did, not even for a renewal, then no lease of the slot was extended
//!   meanwhile. But a loss of data at that server is then not noticed.
//! - *A server that was a replica for a while* still has its run id, but the data of another
//!   server. So the record also names the last server whose replication it followed.
//!
//! A deadline that moves with its slot is compared with another clock. If a lease has ended by that
//! clock alone, the name is not granted before the quarantine is over. By then the lease has ended
//! by every clock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use leasehold_core::text::show_duration;
use leasehold_core::{Operation, StoreError, StoreErrorKind};
use redis::{Cmd, FromRedisValue, Pipeline, Value};

use crate::mutex::Mutex;
use crate::store::redis::connection::call::{Call, Request, ScriptText};
use crate::store::redis::connection::{Connection, Failure, error};
use crate::store::redis::layout::key::{self, Part, SlotKeys};
use crate::store::redis::layout::script::Script;

/// How long a client that has found a quarantine relies on that without asking again: 250 ms. So
/// the waiters of one client together ask four times a second, and soon notice that an operator has
/// ended the quarantine.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// The number of boot records that one command reads: 128, which takes a server about a
/// millisecond.
const PARTS_AT_ONCE: usize = 128;

/// The reason for which nothing new is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The slot is moving to another server.
    Moving,
    /// The server may have forgotten something. The value is the rest of its quarantine.
    Quarantine(Duration),
}

/// The restart check of the primaries of one store.
#[derive(Debug)]
pub(crate) struct Quarantine {
    keys: SlotKeys,
    /// How long nothing new is granted, and the longest ttl that a request may have.
    span: Duration,
    /// For each part in quarantine, the time when its boot record was last read, and the rest of
    /// the quarantine at that time.
    known: Mutex<HashMap<Part, (Instant, Duration)>>,
}

impl Quarantine {
    pub(crate) fn new(prefix: &str, span: Duration, in_cluster: bool) -> Self {
        let keys = SlotKeys::new(key::of_store(prefix, "boot"), in_cluster);
        Self { keys, span, known: Mutex::default() }
    }

    /// The part whose boot record applies to a key.
    pub(crate) fn part(&self, key: Option<&[u8]>) -> Part {
        self.keys.part(key)
    }

    /// The parts with a boot record, for a server that serves these slots.
    pub(crate) fn parts(&self, slots: &[u16]) -> Vec<Part> {
        self.keys.parts(slots)
    }

    /// Whether a quarantine has its full length left. If so, this request began it.
    pub(crate) fn has_just_begun(&self, pause: Option<Pause>) -> bool {
        pause == Some(Pause::Quarantine(self.span))
    }

    /// Refuses a lease that could outlive a quarantine.
    pub(crate) fn check(&self, operation: &Operation) -> Result<(), StoreError> {
        let longest = operation.ttl().filter(|longest| *longest > self.span);
        let Some(longest) = longest else { return Ok(()) };
        let why = format!(
            "a ttl of {} is longer than the quarantine of {}, so after a restart others could \
             get the lock before the lease ends: ask for less, or write quarantine=off in every \
             store URL",
            show_duration(longest),
            show_duration(self.span)
        );
        Err(StoreError::new(StoreErrorKind::Unsupported, why))
    }

    /// The call that asks whether the server has forgotten anything. If `ends`, the call declares
    /// for an operator that nothing was forgotten.
    pub(crate) fn question(&self, part: Part, run_id: &str, ends: bool) -> Call<Value> {
        let word = if ends { b"end".to_vec() } else { Vec::new() };
        let args = self.run_and_span(run_id).into_iter().chain([word]);
        Call::new(Request::new(Script::BootRecord.text()).with([self.keys.key(part)], args), Ok)
    }

    fn run_and_span(&self, run_id: &str) -> [Vec<u8>; 2] {
        [run_id.into(), self.span.as_micros().to_string().into_bytes()]
    }

    /// The guarded script of a call, and the command for it. A server in quarantine grants nothing
    /// new by it. `None` if the call grants nothing new anyway.
    pub(super) fn guard<A>(
        &self,
        call: &Call<A>,
        part: Part,
        run_id: &str,
    ) -> Option<(&'static ScriptText, Cmd)> {
        let script = call.request.script.guarded.as_deref()?;
        Some((
            script,
            call.request.and(script, &[self.keys.key(part).into()], &self.run_and_span(run_id)),
        ))
    }

    /// Asks whether the part is in quarantine, and records the answer.
    pub(crate) async fn ask(
        &self,
        connection: &Connection,
        run_id: &str,
        part: Part,
    ) -> Result<Option<Pause>, StoreError> {
        match connection.run(&self.question(part, run_id, false).request, false).await {
            Ok(value) => self.note(connection, part, value),
            Err(failure) => not_here(failure, part),
        }
    }

    /// Records the reply of the script that checks a boot record. Returns the reason if nothing new
    /// is granted.
    pub(super) fn note(
        &self,
        connection: &Connection,
        part: Part,
        value: Value,
    ) -> Result<Option<Pause>, StoreError> {
        let left_us = u64::from_redis_value(value)
            .map_err(|_| error::unexpected_reply(connection.server(), "the boot record"))?;
        let left = (left_us > 0).then(|| Duration::from_micros(left_us));
        match left {
            Some(left) => self.known.lock().insert(part, (Instant::now(), left)),
            None => self.known.lock().remove(&part),
        };
        Ok(left.map(Pause::Quarantine))
    }

    /// Lets an acquire pass, unless a quarantine is known.
    pub(crate) async fn admit(
        &self,
        connection: &Connection,
        run_id: &str,
        part: Part,
    ) -> Result<(), StoreError> {
        let known = self.known.lock().get(&part).copied();
        let Some((asked, left)) = known else { return Ok(()) };
        let since = asked.elapsed();
        let pause = match since < ASK_EVERY {
            true => left.checked_sub(since).filter(|left| !left.is_zero()).map(Pause::Quarantine),
            // If the slot has moved, the acquire finds that out by itself.
            false => {
                self.ask(connection, run_id, part).await?.filter(|pause| *pause != Pause::Moving)
            }
        };
        pause.map_or(Ok(()), |pause| Err(refusal(connection.server(), pause)))
    }

    /// Asks about more slots of a server, so that their quarantine begins now, if they need one. It
    /// stops at slots that another client has asked about: that client does the rest.
    pub(crate) async fn spread(
        &self,
        connection: &Connection,
        run_id: &str,
        parts: &[Part],
    ) -> Result<(), StoreError> {
        for parts in parts.chunks(PARTS_AT_ONCE) {
            let values = self.ask_together(connection, run_id, parts, false).await?;
            let has_begun = |value: Value| {
                let left_us = u64::from_redis_value(value).unwrap_or_default();
                self.has_just_begun(Some(Pause::Quarantine(Duration::from_micros(left_us))))
            };
            if !values.into_iter().any(has_begun) {
                break;
            }
        }
        Ok(())
    }

    /// Declares for an operator that the server has forgotten nothing.
    pub(crate) async fn end(
        &self,
        connection: &Connection,
        run_id: &str,
        parts: &[Part],
    ) -> Result<(), StoreError> {
        for parts in parts.chunks(PARTS_AT_ONCE) {
            let values = self.ask_together(connection, run_id, parts, true).await?;
            for (part, value) in parts.iter().zip(values) {
                match (connection.check_served(value), part) {
                    (Ok(_), _) => self.known.lock().remove(part),
                    (Err(Failure::NotServed { server, .. }), Some(slot)) => {
                        let why = format!("slot {slot} is being moved: try again after that");
                        return Err(error::unserved(&server, &why));
                    }
                    (Err(failure), _) => return Err(failure.into()),
                };
            }
        }
        Ok(())
    }

    async fn ask_together(
        &self,
        connection: &Connection,
        run_id: &str,
        parts: &[Part],
        ends: bool,
    ) -> Result<Vec<Value>, StoreError> {
        connection.load(Script::BootRecord.text()).await?;
        let mut together = Pipeline::new();
        for part in parts {
            together.add_command(self.question(*part, run_id, ends).request.command());
        }
        connection.ask_all(&together).await
    }
}

/// The result if the boot record cannot be read: in a cluster, its slot is elsewhere or moving.
fn not_here(failure: Failure, part: Part) -> Result<Option<Pause>, StoreError> {
    match failure {
        Failure::NotServed { .. } if part.is_some() => Ok(Some(Pause::Moving)),
        failure => Err(failure.into()),
    }
}

pub(crate) fn refusal(server: &str, pause: Pause) -> StoreError {
    let why = match pause {
        Pause::Moving => format!(
            "{server}: the slot is being moved to another server, so nothing new is granted in it \
             until the quarantine there has ended: wait"
        ),
        Pause::Quarantine(left) => format!(
            "{server}: nothing new is granted for another {}: the server may have \
             forgotten who holds what (a start, a flush, a failover, a slot that has moved): wait; \
             or, only if no earlier lease can be valid, use `leasehold end-quarantine`",
            show_duration(left)
        ),
    };
    StoreError::new(StoreErrorKind::Quarantined, why)
}
