//! The quick paths: one function in the database for each of the most frequent requests, on names
//! in an ordinary state. A quick path takes one round trip; if it gives up, a general step does the
//! request.
//!
//! They are a second implementation of these requests, and exist because they save a round trip.
//! The differential test plays random histories to the store and to the model, and compares every
//! reply and every record.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::{RETENTION, Record};
use leasehold_core::{
    Acquire, Action, Answer, Cancelled, FencingToken, Grant, HolderId, LockName, Mode, Operation,
    RenewLease, Reply, StoreError, StoreErrorKind,
};
use tokio_postgres::types::Type;

use super::bundle::Lane;
use super::connection::{Sessions, Value, error};
use super::options::PostgresOptions;
use super::record::{self, damaged, now};
use super::schema::Statements;
use crate::mutex::Mutex;

/// The longest span that a function accepts: a year, far below the limit of its numbers.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// The largest number of attempts that are remembered: 100 000, some 5 MB. Lost leases are never
/// released, so their attempts pile up. At this number all attempts are forgotten, and general
/// steps release their leases.
const MOST_GIVEN: usize = 100_000;

/// The quick paths of one store.
#[derive(Debug)]
pub(crate) struct Quick {
    functions: Arc<Functions>,
    acquires: Arc<Lane<(LockName, Acquire)>>,
    /// Requests that end an attempt: the release by a holder, or the cancellation of an attempt
    /// whose grant reached no caller.
    ends: Arc<Lane<(LockName, HolderId, bool)>>,
    /// Attempts that a quick path of this store has granted. A quick path releases no others.
    given: Mutex<BTreeSet<HolderId>>,
}

#[derive(Debug)]
struct Functions {
    sessions: Sessions,
    statements: Statements,
}

/// The part of an operation that the quick paths have done.
pub(crate) enum Done {
    Answered(Answer),
    /// Some of the renewals are answered: the general path does the others.
    InPart(Vec<Option<Answer>>),
    Nothing,
}

impl Quick {
    pub(crate) fn new(
        settings: &PostgresOptions,
        sessions: Sessions,
        statements: Statements,
    ) -> Self {
        let count = settings.connections as usize;
        let functions = Arc::new(Functions { sessions, statements });
        let [of_acquires, of_ends] = [&functions; 2].map(Arc::clone);
        Self {
            functions,
            acquires: Lane::new(count, move |asked| {
                let functions = Arc::clone(&of_acquires);
                Box::pin(async move { functions.acquire(&asked).await })
            }),
            ends: Lane::new(count, move |asked| {
                let functions = Arc::clone(&of_ends);
                Box::pin(async move { functions.end(&asked).await })
            }),
            given: Mutex::default(),
        }
    }

    /// Applies an operation, if a quick path can do it.
    pub(crate) async fn apply(&self, operation: &Operation) -> Result<Done, StoreError> {
        let answer = match operation {
            Operation::On { name, action } => match action {
                Action::Acquire(request) if is_plain(request) => {
                    let answer = self.acquires.ask((name.clone(), request.clone())).await?;
                    if answer.as_ref().is_some_and(|it| matches!(it.reply, Reply::Granted(_))) {
                        self.note_given(request.id);
                    }
                    answer
                }
                Action::Release { id, cooldown, unanswered: false }
                    if cooldown.is_zero() && self.given.lock().remove(id) =>
                {
                    self.ends.ask((name.clone(), *id, true)).await?
                }
                Action::Cancel { id, unanswered: false } if self.given.lock().remove(id) => {
                    self.ends.ask((name.clone(), *id, false)).await?
                }
                _ => return Ok(Done::Nothing),
            },
            Operation::Renew(leases) if are_plain(leases) => {
                return self.functions.renew(leases).await;
            }
            _ => return Ok(Done::Nothing),
        };
        Ok(answer.map_or(Done::Nothing, Done::Answered))
    }

    /// Records that a quick path may also release this attempt.
    fn note_given(&self, id: HolderId) {
        let mut given = self.given.lock();
        if given.len() >= MOST_GIVEN {
            given.clear();
        }
        given.insert(id);
    }
}

impl Functions {
    /// Sends requests to acquire some names.
    async fn acquire(
        &self,
        asked: &[(LockName, Acquire)],
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        let names: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
        let holders: Vec<Vec<u8>> = asked.iter().map(|(_, it)| holder(it.id)).collect();
        let gifts: Vec<Vec<u8>> = asked.iter().map(|(_, it)| record::gift(it)).collect();
        let ttls: Vec<i64> = asked.iter().map(|(_, it)| us(it.ttl)).collect();
        let not_after = |it: &Acquire| i64::try_from(it.not_after_us).unwrap_or(i64::MAX);
        let not_after: Vec<i64> = asked.iter().map(|(_, it)| not_after(it)).collect();
        let kept: Vec<i64> = asked.iter().map(|(_, it)| us(RETENTION.max(it.remember))).collect();
        let values = [
            (&names as _, Type::TEXT_ARRAY),
            (&holders as _, Type::BYTEA_ARRAY),
            (&gifts as _, Type::BYTEA_ARRAY),
            (&ttls as _, Type::INT8_ARRAY),
            (&not_after as _, Type::INT8_ARRAY),
            (&kept as _, Type::INT8_ARRAY),
            (&Record::default().to_bytes() as _, Type::BYTEA),
        ];
        let numbers = match self.ask(&self.statements.quick_acquire, &values).await {
            // The server itself has ended the session, so this request cannot be executed any more,
            // and the general path may ask again.
            Err(error) if error::is_refusal(&error) && error::is_broken(&error) => Vec::new(),
            numbers => numbers?,
        };
        let answers = numbers.chunks_exact(3).zip(asked).map(|(numbers, (_, request))| {
            let (now_us, reply) = match *numbers {
                [Some(now_us), Some(token), Some(until_us)] => (now_us, granted(token, until_us)?),
                [Some(now_us), None, Some(until_us)] if !request.wait => {
                    let left_us = u64::try_from(until_us - now_us).unwrap_or(0);
                    (now_us, Reply::Busy { retry_after: Duration::from_micros(left_us) })
                }
                _ => return Ok(None),
            };
            Ok(Some(Answer::new(now(now_us)?, reply)))
        });
        answers.collect()
    }

    /// Ends attempts: by release, or by cancellation if the grant reached no caller.
    async fn end(
        &self,
        asked: &[(LockName, HolderId, bool)],
    ) -> Result<Vec<Option<Answer>>, StoreError> {
        let names: Vec<&str> = asked.iter().map(|(name, ..)| name.as_str()).collect();
        let holders: Vec<Vec<u8>> = asked.iter().map(|(_, id, _)| holder(*id)).collect();
        let were_had: Vec<bool> = asked.iter().map(|(.., was_had)| *was_had).collect();
        let kept = us(RETENTION);
        let values = [
            (&names as _, Type::TEXT_ARRAY),
            (&holders as _, Type::BYTEA_ARRAY),
            (&were_had as _, Type::BOOL_ARRAY),
            (&kept as _, Type::INT8),
        ];
        let times = self.ask(&self.statements.quick_end, &values).await?;
        let answers = times.iter().zip(asked).map(|(now_us, (.., was_had))| {
            let reply = match was_had {
                true => Reply::Released,
                false => Reply::Cancelled(Cancelled::Released),
            };
            now_us.map(|now_us| Ok(Answer::new(now(now_us)?, reply))).transpose()
        });
        answers.collect()
    }

    async fn renew(&self, leases: &[RenewLease]) -> Result<Done, StoreError> {
        let names: Vec<&str> = leases.iter().map(|lease| lease.name.as_str()).collect();
        let holders: Vec<Vec<u8>> = leases.iter().map(|lease| holder(lease.id)).collect();
        let ttls: Vec<i64> = leases.iter().map(|lease| us(lease.ttl)).collect();
        let kept = us(RETENTION);
        let values = [
            (&names as _, Type::TEXT_ARRAY),
            (&holders as _, Type::BYTEA_ARRAY),
            (&ttls as _, Type::INT8_ARRAY),
            (&kept as _, Type::INT8),
        ];
        let asked = self.ask(&self.statements.quick_renew, &values).await;
        let numbers = match asked {
            // A renewal that is executed twice does no harm, however late the first one arrives.
            Err(error) if error::is_broken(&error) => return Ok(Done::Nothing),
            asked => asked?,
        };
        if numbers.len() != 3 * leases.len() {
            return Ok(Done::Nothing);
        }
        let renewed = numbers.chunks_exact(3).map(|numbers| match *numbers {
            [Some(now_us), Some(token), Some(until_us)] => {
                Ok(Some(Answer::new(now(now_us)?, granted(token, until_us)?)))
            }
            _ => Ok(None),
        });
        renewed.collect::<Result<_, StoreError>>().map(Done::InPart)
    }

    /// Runs one of the functions. If it returns no number for a request, the general path must do
    /// that request.
    async fn ask(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Option<i64>>, StoreError> {
        let mut taken = match self.sessions.take(self.sessions.give_up()).await {
            Ok(taken) => taken,
            Err(error) if error.kind() == StoreErrorKind::Timeout => return Err(error),
            Err(_) => return Ok(Vec::new()), // a general step tries again, or reports the error
        };
        match taken.query(sql, values).await {
            Ok(rows) => {
                taken.give_back();
                Ok(rows.first().map_or_else(Vec::new, |row| row.get(0)))
            }
            // The transaction was rolled back.
            Err(error) if error::is_worth_another_try(&error) => Ok(Vec::new()),
            Err(error) if error::is_refusal(&error) && !error::is_broken(&error) => Err(error),
            Err(error) => Err(error.maybe_executed()),
        }
    }
}

/// Joins two answers to renewals: the second has the replies that are missing from the first. The
/// joined answer has the latest store time of both. The holder counts the rest of each lease from
/// that time, so no lease ends later for its holder than at the store.
pub(crate) fn joined(
    parts: Vec<Option<Answer>>,
    rest: Option<Answer>,
) -> Result<Answer, StoreError> {
    let more = rest.as_ref().is_some_and(|rest| rest.more);
    let times = parts.iter().flatten().chain(&rest).map(|answer| answer.now);
    let latest = times.max_by_key(|now| now.lease_us).ok_or_else(|| damaged("an answer"))?;
    let mut rest = match rest.map(|rest| rest.reply) {
        Some(Reply::Many(replies)) => replies.into_iter(),
        _ => Vec::new().into_iter(),
    };
    let replies = parts.into_iter().map(|part| part.map(|it| it.reply).or_else(|| rest.next()));
    let replies: Option<Vec<_>> = replies.collect();
    let reply = replies.map(Reply::Many).ok_or_else(|| damaged("an answer"))?;
    Ok(Answer::new(latest, reply).with_more(more))
}

/// Whether a request is for an exclusive lock, and leaves the token to the store.
fn is_plain(request: &Acquire) -> bool {
    request.mode == Mode::Exclusive
        && request.ballot_us.is_none()
        && [request.ttl, request.remember].iter().all(|span| *span <= LONGEST)
}

/// Whether all renewals have different names.
fn are_plain(leases: &[RenewLease]) -> bool {
    let names: BTreeSet<&LockName> = leases.iter().map(|lease| &lease.name).collect();
    names.len() == leases.len() && leases.iter().all(|lease| lease.ttl <= LONGEST)
}

/// An attempt in the form of the database: its client, then its number.
fn holder(HolderId { client, attempt }: HolderId) -> Vec<u8> {
    [&client.0.to_le_bytes()[..], &attempt.to_le_bytes()].concat()
}

fn us(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn granted(token: i64, deadline_us: i64) -> Result<Reply, StoreError> {
    let token = u64::try_from(token).ok().and_then(FencingToken::from_number);
    let deadline_us = u64::try_from(deadline_us).ok();
    let (token, deadline_us) = token.zip(deadline_us).ok_or_else(|| damaged("a grant"))?;
    Ok(Reply::Granted(Grant::new(token, deadline_us)))
}
