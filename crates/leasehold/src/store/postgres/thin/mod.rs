//! The frequent requests, each as one statement: take, join, keep, end, and the hand-over. All but
//! the join have the names of all callers that ask together.
//!
//! A statement that returns no row for a name has granted nothing and changed nothing there. Nor
//! has one that the server refuses. A general step follows then, which knows why.

mod bundles;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::{ASK_INTERVAL, text};
use leasehold_core::{
    Answer, End, FencingToken, Grant, HolderId, Keep, LockName, Mode, Place, Reply, StoreError,
    Take,
};
use tokio_postgres::Row;

use self::bundles::Bundles;
use super::connection::{Sessions, error};
use super::record::{damaged, now};
use crate::mutex::Mutex;

const JOIN: &str = include_str!("join.sql");

/// The largest number of names that are known to be awaited: 1024. All are forgotten beyond that.
const MOST_AWAITED: usize = 1_024;

/// The answer of a statement; `None` if a general step has to follow.
type Tried = Result<Option<Answer>, StoreError>;

/// The statements of one store.
pub(crate) struct Thin {
    sessions: Arc<Sessions>,
    takes: Arc<Bundles>,
    shares: Arc<Bundles>,
    keeps: Arc<Bundles>,
    ends: Arc<Bundles>,
    hand_overs: Arc<Bundles>,
    /// The names that somebody awaited lately. It only decides which statement is tried first.
    awaited: Mutex<HashSet<LockName>>,
}

impl Thin {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        let of = |text| Arc::new(Bundles::new(&sessions, text));
        Self {
            takes: of(include_str!("take.sql")),
            shares: of(include_str!("share.sql")),
            keeps: of(include_str!("keep.sql")),
            ends: of(include_str!("end.sql")),
            hand_overs: of(include_str!("hand_over.sql")),
            awaited: Mutex::default(),
            sessions,
        }
    }

    /// Takes a free name, or joins the queue of a name that is held.
    pub(crate) async fn take(&self, name: &LockName, take: &Take) -> Tried {
        let Take { request, ttl, place, ballot_us, once_per, waits, .. } = take;
        let is_plain = place.is_none() && ballot_us.is_none() && once_per.is_none();
        if !is_plain || matches!(request.mode, Mode::Permits { .. }) {
            return Ok(None);
        }
        let words = text::request(request);
        let joins = *waits && request.mode == Mode::Exclusive;
        let is_awaited = joins && self.awaited.lock().contains(name);
        if is_awaited && let Some(queued) = self.join(name, &words, request.id).await? {
            return Ok(Some(queued));
        }
        let what = words.split_once(' ').map_or("", |(_, what)| what);
        let takes = if what.starts_with('*') { &self.takes } else { &self.shares };
        if let Some(row) = takes.ask(name, request.id, *ttl, what).await? {
            let grant = Grant::new(FencingToken::from_micros(positive(row.get(2))?));
            return answer(&row, Reply::Granted(grant));
        }
        if is_awaited || !joins {
            return Ok(None);
        }
        self.join(name, &words, request.id).await
    }

    async fn join(&self, name: &LockName, words: &str, id: HolderId) -> Tried {
        let own = own(id);
        let values = values![TEXT name.as_str(), TEXT words, TEXT own];
        let rows = self.sessions.take().await?.attempt(JOIN, &values).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let left = Duration::from_millis(positive(row.get(3))?).min(ASK_INTERVAL);
        let ahead = u32::try_from(row.get::<_, i32>(2)).map_err(|_| damaged("a queue"))?;
        let place = Place::new(positive(row.get(1))?, ahead, left);
        let mut awaited = self.awaited.lock();
        if awaited.len() >= MOST_AWAITED {
            awaited.clear();
        }
        awaited.insert(name.clone());
        answer(row, Reply::Queued(place))
    }

    /// Renews a lease.
    pub(crate) async fn keep(&self, name: &LockName, keep: &Keep) -> Tried {
        if keep.request.mode != Mode::Exclusive || keep.description.is_some() {
            return Ok(None);
        }
        match self.keeps.ask(name, keep.request.id, keep.ttl, "").await {
            Ok(Some(row)) => answer(&row, Reply::Kept { contended: row.get(2) }),
            // To renew twice does no harm.
            Err(failure) if !error::is_broken(&failure) => Err(failure),
            _ => Ok(None),
        }
    }

    /// Releases a name, or hands it over.
    pub(crate) async fn end(&self, name: &LockName, end: &End) -> Tried {
        let End { request, closes, cooldown, done, .. } = end;
        let is_plain = !closes && cooldown.is_zero() && done.is_zero();
        if !is_plain || matches!(request.mode, Mode::Permits { .. }) {
            return Ok(None);
        }
        // What is tried first is what has worked the last time. A hand-over passes over a row that
        // somebody is about to have joined, so it is tried again.
        let statements = match self.awaited.lock().contains(name) {
            false => &[&self.ends, &self.hand_overs][..],
            true => &[&self.hand_overs, &self.hand_overs, &self.ends],
        };
        for statement in statements {
            if let Some(row) = statement.ask(name, request.id, Duration::ZERO, "").await? {
                if Arc::ptr_eq(statement, &self.ends) {
                    self.awaited.lock().remove(name);
                }
                return answer(&row, Reply::Ended(true));
            }
        }
        Ok(None)
    }
}

fn answer(row: &Row, reply: Reply) -> Tried {
    Ok(Some(Answer::new(now(row.get(0))?, reply)))
}

/// What the words of an attempt begin with.
fn own(id: HolderId) -> String {
    format!("{id} ")
}

fn positive(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| damaged("a number"))
}
