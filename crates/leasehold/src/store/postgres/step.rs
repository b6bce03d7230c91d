//! One action on the record of a name: one transaction of two round trips. It locks the row of the
//! name and reads it (`open`), runs the pure step of the model here, and writes and commits
//! (`close`).

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::{self, Gate, Hold, Record, Rules, State};
use leasehold_core::{
    Action, Addressed, Answer, End, HolderId, HolderInfo, LockName, Mode, Reply, Request,
    StoreError, StoreErrorKind, Take,
};
use tokio_postgres::Row;

use super::connection::{Sessions, Taken, boot, error};
use super::record::{self, Columns, damaged, now};

const OPEN: &str = "SELECT * FROM leasehold.open_4($1)";
const CLOSE: &str = "SELECT leasehold.close_4($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

/// Applies an action. Returns the answer and the messages to send.
pub(crate) async fn apply(
    sessions: &Arc<Sessions>,
    name: &LockName,
    action: &Action,
) -> Result<(Answer, Vec<Addressed>), StoreError> {
    for held_back in [false, true] {
        let step = || try_to(sessions, name, action, held_back);
        if let Some(done) = sessions.repeat(step).await? {
            return Ok(done);
        }
    }
    Err(refusal(sessions, name).await)
}

/// Does a step; `None` if a fenced transaction of the name is open, and nothing is written. If it
/// fails, what it has begun is rolled back.
async fn try_to(
    sessions: &Arc<Sessions>,
    name: &LockName,
    action: &Action,
    held_back: bool,
) -> Result<Option<(Answer, Vec<Addressed>)>, StoreError> {
    let (taken, boot, values) =
        (sessions.take().await?, &sessions.boot, values![TEXT name.as_str()]);
    let open = async || {
        let (begun, rows) = tokio::join!(taken.batch(&boot.begin), taken.plain(OPEN, &values));
        begun?;
        let row = rows?.into_iter().next().ok_or_else(|| damaged("an answer"))?;
        Ok::<_, StoreError>((boot.left(&row), row))
    };
    let mut opened = open().await?;
    if opened.0.is_none() {
        // No client has checked whether the server has forgotten anything.
        taken.batch("ROLLBACK").await?;
        boot.ask(&taken, Some(Duration::ZERO)).await?;
        opened = open().await?;
    }
    let (Some(left), row) = opened else { return Err(damaged("the row in the table `boot`")) };
    let in_quarantine = !left.is_zero();
    // A waiter may ask, so that it keeps its place, and so may a caller who has the lease.
    let is_new = matches!(action, Action::Take(Take { place: None, from: None, claim: None, .. }));
    if in_quarantine && is_new {
        return Err(boot::refusal(taken.server(), left));
    }
    let rules = Rules { held_back, in_quarantine, ..Rules::USUAL };
    let counter = u64::try_from(row.get::<_, i64>("counter")).map_err(|_| damaged("a number"))?;
    let change = Change::of(name, &row, (rules, counter), action)?;
    let mut is_closed = true;
    if change.record == change.before {
        // The row of a new name goes, too.
        taken.batch("ROLLBACK").await?;
    } else {
        let is_flushed = change.grants() == Some(true) || is_flushed(action, &change.answer.reply);
        is_closed = close(&taken, (name, &row), &change, is_flushed).await?;
    }
    taken.give_back();
    Ok(is_closed.then_some((change.answer, change.messages)))
}

/// Writes the change and commits. False if the name is held back, and nothing is written.
async fn close(
    taken: &Taken,
    (name, row): (&LockName, &Row),
    change: &Change,
    is_flushed: bool,
) -> Result<bool, StoreError> {
    let (epoch, version): (i64, &str) = (row.get("epoch"), row.get("version"));
    let fence = exclusive(&change.record).map(|(_, token_us)| us(token_us));
    let Columns { free_from_us, used_until_us, hold, queue, record } = Columns::of(&change.record);
    let (grants, counter) = (change.grants(), us(change.counter));
    let values = values![TEXT name.as_str(), INT8 epoch, TEXT version, INT8 counter, INT8 fence,
        INT8 free_from_us, INT8 used_until_us, TEXT hold, TEXT_ARRAY queue, TEXT record,
        BOOL grants, BOOL is_flushed];
    let (closed, committed) = tokio::join!(taken.plain(CLOSE, &values), taken.batch("COMMIT"));
    if let Err(refusal) = &closed
        && error::is_refusal(refusal)
    {
        // Then it was rolled back. A step without an answer may have been committed.
        return Err(refusal.clone());
    }
    committed.map_err(StoreError::maybe_executed)?;
    let rows = closed.map_err(StoreError::maybe_executed)?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Reads one record, without its lock.
pub(crate) async fn look(
    sessions: &Arc<Sessions>,
    name: &LockName,
    action: &Action,
) -> Result<Answer, StoreError> {
    let values = values![TEXT name.as_str()];
    let rows = sessions.query(include_str!("schema/read.sql"), &values).await?;
    let row = rows.first().ok_or_else(|| damaged("an answer"))?;
    // Nothing is granted here, so nothing is drawn.
    let rules = Rules { held_back: true, ..Rules::USUAL };
    let mut answer = Change::of(name, row, (rules, 0), action)?.answer;
    if let Reply::Status(status) = &mut answer.reply
        && status.is_free()
    {
        // This only explains why a free name is not granted.
        status.held_back = held_back(sessions, name).await;
    }
    Ok(answer)
}

/// Describes the open transactions that have passed `fence` for a name, and so hold it back, as far
/// as the server tells about them.
async fn held_back(sessions: &Arc<Sessions>, name: &LockName) -> Vec<String> {
    let values = values![TEXT name.as_str()];
    let rows = sessions.query("SELECT leasehold.held_back_4($1)", &values).await;
    rows.unwrap_or_default().iter().map(|row| row.get(0)).collect()
}

/// The error for a step on a name that is held back.
pub(crate) async fn refusal(sessions: &Arc<Sessions>, name: &LockName) -> StoreError {
    let mut text = format!("{}: held back by an open transaction on its fence", name.as_str());
    // The transaction may have ended since.
    let found = held_back(sessions, name).await;
    if !found.is_empty() {
        text = format!("{text} ({})", found.join("; "));
    }
    StoreError::new(StoreErrorKind::Timeout, text)
}

/// What an action changes in a row, and its answer.
struct Change {
    before: Record,
    record: Record,
    counter: u64,
    answer: Answer,
    messages: Vec<Addressed>,
}

impl Change {
    fn of(
        name: &LockName,
        row: &Row,
        (rules, mut counter): (Rules, u64),
        action: &Action,
    ) -> Result<Self, StoreError> {
        let (now, before) = (now(row.get("now_us"))?, record::read(name, row)?);
        let (mut record, mut messages) = (before.clone(), Vec::new());
        // A commit has released the hold (`release_at_commit`). The holder's own end does the same.
        let released: Option<i64> = row.get("released");
        if let Some(&Hold { id, token: Some(token_us), .. }) = record.hold()
            && released == Some(us(token_us))
            && !matches!(action, Action::End(End { request, .. }) if request.id == id)
        {
            let request = Request::new(id, Mode::Exclusive, HolderInfo::default());
            let end = Action::End(End::new(request));
            messages = model::step(&mut record, &mut counter, now, rules, &end).messages;
        }
        let outcome = model::step(&mut record, &mut counter, now, rules, action);
        messages.extend(outcome.messages);
        let answer = Answer::new(now, outcome.reply);
        Ok(Self { before, record, counter, answer, messages })
    }

    /// Whether a token is granted; false if an exclusive hold ends, `None` if neither happens.
    fn grants(&self) -> Option<bool> {
        let known = holds(&self.before);
        let is_grant = holds(&self.record).iter().any(|hold| !known.contains(hold));
        let before = exclusive(&self.before);
        let is_end = before.is_some() && exclusive(&self.record) != before;
        (is_grant || is_end).then_some(is_grant)
    }
}

/// The hold that fences: the exclusive one, unless its end was noticed.
fn exclusive(record: &Record) -> Option<(HolderId, u64)> {
    match &record.gate {
        Some(Gate { state: State::Awaited(hold) | State::Held(hold), .. }) => {
            Some((hold.id, hold.token?))
        }
        _ => None,
    }
}

/// All holds with their tokens.
fn holds(record: &Record) -> Vec<(HolderId, u64)> {
    let shares = record.shares.values().map(|share| (share.request.id, share.token));
    shares.chain(exclusive(record)).collect()
}

fn us(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// Whether somebody relies on the write once the request is answered: then it must be on disk. If a
/// crash loses any other write, the loss only delays somebody, and grants nothing.
fn is_flushed(action: &Action, reply: &Reply) -> bool {
    match action {
        Action::End(end) => !end.cooldown.is_zero() || !end.done.is_zero(),
        Action::Take(_) => matches!(reply, Reply::Granted(_)),
        _ => true,
    }
}
