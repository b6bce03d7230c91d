//! The frequent requests for names that are free, or that one attempt holds, each as one statement:
//! take, join, keep, end, and the hand-over.
//!
//! A statement that returns no row has granted nothing and changed nothing. Nor has one that the
//! server refuses. A general step follows then, which knows why.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use leasehold_core::model::{ASK_INTERVAL, text};
use leasehold_core::{
    Answer, End, FencingToken, Grant, HolderId, Keep, LockName, Mode, Now, Place, Reply,
    StoreError, Take,
};

use super::connection::Sessions;
use super::record::{damaged, now};
use crate::mutex::Mutex;

const TAKE: &str = include_str!("take.sql");
const JOIN: &str = include_str!("join.sql");
const KEEP: &str = include_str!("keep.sql");
const END: &str = include_str!("end.sql");
const HAND_OVER: &str = include_str!("hand_over.sql");

/// The largest number of names that are known to be awaited: 1024. All are forgotten beyond that.
const MOST_AWAITED: usize = 1_024;

/// The statements of one store.
pub(crate) struct Thin {
    sessions: Sessions,
    /// The names that somebody awaited lately. It only decides which statement is tried first.
    awaited: Mutex<HashSet<LockName>>,
}

impl Thin {
    pub(crate) fn new(sessions: Sessions) -> Self {
        Self { sessions, awaited: Mutex::default() }
    }

    /// Takes a free name, or joins the queue of a name that is held.
    pub(crate) async fn take(
        &self,
        name: &LockName,
        take: &Take,
    ) -> Result<Option<Answer>, StoreError> {
        let Take { request, ttl, place, ballot_us, once_per, waits, .. } = take;
        let is_plain = place.is_none() && ballot_us.is_none() && once_per.is_none();
        if !is_plain || request.mode != Mode::Exclusive {
            return Ok(None);
        }
        // The attempt, a star, and the facts.
        let words = text::request(request);
        let is_awaited = *waits && self.awaited.lock().contains(name);
        if is_awaited && let Some(queued) = self.join(name, &words, request.id).await? {
            return Ok(Some(queued));
        }
        let facts = words.split_once('*').map_or("", |(_, facts)| facts);
        let (hold, ttl_ms) = (format!("h {}", own(request.id)), millis(*ttl));
        let is_guarded = self.sessions.boot().is_guarded;
        let values =
            values![TEXT name.as_str(), TEXT hold, TEXT facts, INT8 ttl_ms, BOOL is_guarded];
        let rows = self.sessions.attempt((TAKE, true), &values).await?;
        if let Some(row) = rows.first() {
            let grant = Grant::new(FencingToken::from_micros(positive(row.get(1))?));
            return Ok(Some(Answer::new(now(row.get(0))?, Reply::Granted(grant))));
        }
        if is_awaited || !waits {
            return Ok(None);
        }
        self.join(name, &words, request.id).await
    }

    async fn join(
        &self,
        name: &LockName,
        words: &str,
        id: HolderId,
    ) -> Result<Option<Answer>, StoreError> {
        let (own, is_guarded) = (own(id), self.sessions.boot().is_guarded);
        let values = values![TEXT name.as_str(), TEXT words, TEXT own, BOOL is_guarded];
        let rows = self.sessions.attempt((JOIN, true), &values).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let left = Duration::from_millis(positive(row.get(3))?).min(ASK_INTERVAL);
        let ahead = u32::try_from(row.get::<_, i32>(2)).map_err(|_| damaged("a queue"))?;
        let place = Place::new(positive(row.get(1))?, ahead, left);
        self.note_awaited(name);
        Ok(Some(Answer::new(now(row.get(0))?, Reply::Queued(place))))
    }

    fn note_awaited(&self, name: &LockName) {
        let mut awaited = self.awaited.lock();
        if awaited.len() >= MOST_AWAITED {
            awaited.clear();
        }
        awaited.insert(name.clone());
    }

    /// Renews leases, and returns when, and whether somebody may wait for each of them. Those whose
    /// indices are not returned need a general step.
    pub(crate) async fn keep(
        &self,
        leases: &[(LockName, Keep)],
    ) -> Result<(Option<Now>, BTreeMap<usize, bool>), StoreError> {
        let thin = leases.iter().enumerate().filter(|(_, (_, keep))| {
            keep.request.mode == Mode::Exclusive && keep.description.is_none()
        });
        let mut thin: Vec<_> = thin.collect();
        if thin.is_empty() {
            return Ok((None, BTreeMap::new()));
        }
        // All steps lock rows in this order, so that no two wait for each other.
        thin.sort_by_key(|(_, (name, _))| name);
        let names: Vec<&str> = thin.iter().map(|(_, (name, _))| name.as_str()).collect();
        let owns: Vec<String> = thin.iter().map(|(_, (_, it))| own(it.request.id)).collect();
        let ttls: Vec<i64> = thin.iter().map(|(_, (_, keep))| millis(keep.ttl)).collect();
        let values = values![TEXT_ARRAY names, TEXT_ARRAY owns, INT8_ARRAY ttls];
        let rows = self.sessions.attempt((KEEP, true), &values).await?;
        let kept = rows.iter().map(|row| {
            let at = usize::try_from(row.get::<_, i64>("at") - 1).ok();
            let (at, _) = at.and_then(|at| thin.get(at)).ok_or_else(|| damaged("an answer"))?;
            Ok((*at, row.get(2)))
        });
        let now = rows.first().map(|row| now(row.get(0))).transpose()?;
        Ok((now, kept.collect::<Result<_, StoreError>>()?))
    }

    /// Releases a name, or hands it over.
    pub(crate) async fn end(
        &self,
        name: &LockName,
        end: &End,
    ) -> Result<Option<Answer>, StoreError> {
        let End { request, closes, cooldown, done, .. } = end;
        if *closes || !cooldown.is_zero() || !done.is_zero() || request.mode != Mode::Exclusive {
            return Ok(None);
        }
        let own = own(request.id);
        // What is tried first is what has worked the last time.
        let was_awaited = self.awaited.lock().remove(name);
        for hands_over in [was_awaited, !was_awaited] {
            let is_guarded = self.sessions.boot().is_guarded;
            let values = values![TEXT name.as_str(), TEXT own, BOOL is_guarded];
            let (sql, values) =
                if hands_over { (HAND_OVER, &values[..]) } else { (END, &values[..2]) };
            let rows = self.sessions.attempt((sql, false), values).await?;
            if let Some(row) = rows.first() {
                if hands_over {
                    self.note_awaited(name);
                }
                return Ok(Some(Answer::new(now(row.get(0))?, Reply::Ended(true))));
            }
        }
        Ok(None)
    }
}

/// What the words of an attempt begin with.
fn own(id: HolderId) -> String {
    format!("{id} ")
}

fn positive(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| damaged("a number"))
}

/// Whole milliseconds of a span, of which none is lost.
fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX)
}
