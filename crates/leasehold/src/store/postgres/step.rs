//! One operation on the records of some names: one transaction of two round trips. It takes the
//! mutexes of the names and reads (`open`), runs the pure step of the model here, and writes and
//! commits (`close`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::model::{self, Gate, Outcome, Record, Records, Rules, State};
use leasehold_core::{
    Action, Addressed, Answer, End, FencingToken, HolderId, HolderInfo, Keep, LockName, Mode, Now,
    Operation, Page, Reply, Request, StoreError, StoreErrorKind, Take,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::boot::{self, Start};
use super::connection::{Sessions, Taken, Value, error};
use super::held_back;
use super::record::{self, damaged, now};
use super::schema::Statements;

/// The number of tries for a step that the server refuses with a passing error: 5.
const MOST_TRIES: u32 = 5;

/// The parts of a store that steps use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) statements: &'a Statements,
}

/// The reason for which a try has failed and written nothing.
enum Failed {
    /// A fenced transaction is open for these names.
    HeldBack(Vec<LockName>),
    /// No client has checked whether the server has forgotten anything.
    NotLooked,
    With(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::With(error)
    }
}

impl Steps<'_> {
    /// Applies an operation on records. Returns the answer and the messages to send.
    pub(crate) async fn apply(
        &self,
        operation: &Operation,
    ) -> Result<(Answer, Vec<Addressed>), StoreError> {
        let names: BTreeSet<&LockName> = match operation {
            Operation::On { name, .. } => [name].into(),
            Operation::Keep(leases) => leases.iter().map(|(name, _)| name).collect(),
            _ => return Err(StoreError::unknown_request()),
        };
        let (mut held_back, mut tries) = (BTreeSet::new(), 0);
        loop {
            tries += 1;
            match self.try_to(operation, &names, &held_back).await {
                Ok(done) => return Ok(done),
                Err(Failed::HeldBack(more)) if tries < MOST_TRIES => held_back.extend(more),
                Err(Failed::HeldBack(names)) => {
                    let store = (self.sessions, self.statements);
                    return Err(held_back::refusal(store, &names).await);
                }
                Err(Failed::NotLooked) if tries < MOST_TRIES => {
                    self.sessions.ask_boot(Duration::ZERO, false).await?;
                }
                Err(Failed::NotLooked) => return Err(damaged("the row in the table `boot`")),
                Err(Failed::With(error)) => {
                    self.sessions.leave_standby(&error);
                    let is_certain = !error.may_have_executed();
                    let may_pass = error::is_worth_another_try(&error) || error::is_broken(&error);
                    if tries == MOST_TRIES || !is_certain || !may_pass {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn try_to(
        &self,
        operation: &Operation,
        names: &BTreeSet<&LockName>,
        held_back: &BTreeSet<LockName>,
    ) -> Result<(Answer, Vec<Addressed>), Failed> {
        let mut taken = self.sessions.take(self.sessions.give_up()).await?;
        let texts: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let values = [(&texts as _, Type::TEXT_ARRAY)];
        let (begun, rows) = tokio::join!(
            taken.batch(&self.statements.begin),
            taken.query(&self.statements.open, &values)
        );
        begun?;
        let rows = rows?;
        let (now, opened) = read(&rows)?;
        let rules = match self.sessions.boot.start(boot_row(&rows), now_us(&rows)) {
            Start::Known => Rules::USUAL,
            Start::Quarantine(_) if !is_newcomer(operation) => {
                Rules { in_quarantine: true, ..Rules::USUAL }
            }
            start => {
                taken.batch("ROLLBACK").await?;
                let server = taken.server().to_owned();
                taken.give_back();
                return Err(match start {
                    Start::Quarantine(left) => boot::refusal(&server, left).into(),
                    Start::Known | Start::Unknown => Failed::NotLooked,
                });
            }
        };
        let mut stepping = Stepping { opened, held_back, rules };
        let done = model::apply(&mut stepping, now, operation)?;
        let changed = Changes::of(stepping.opened);
        if changed.names.is_empty() {
            taken.batch("COMMIT").await?;
            taken.give_back();
            return Ok(done);
        }
        let is_flushed = changed.has_tokens() || is_flushed(operation, &done.0.reply);
        let blocked = self.close(&taken, &changed, is_flushed).await?;
        taken.give_back();
        if blocked.is_empty() {
            return Ok(done);
        }
        Err(Failed::HeldBack(blocked))
    }

    /// Writes the changes and commits. If names are held back, returns them, and writes nothing.
    async fn close(
        &self,
        taken: &Taken,
        changes: &Changes,
        is_flushed: bool,
    ) -> Result<Vec<LockName>, StoreError> {
        let values = changes.values(&is_flushed);
        let (closed, committed) =
            tokio::join!(taken.query(&self.statements.close, &values), taken.batch("COMMIT"));
        // A step that the server refused was rolled back; a step without an answer may have been
        // committed.
        let unknown = |failure: StoreError| match error::is_refusal(&failure) {
            true => failure,
            false => failure.maybe_executed(),
        };
        let rows = closed.map_err(unknown)?;
        committed.map_err(StoreError::maybe_executed)?;
        let blocked: Vec<String> = rows.first().map_or_else(Vec::new, |row| row.get(0));
        blocked.into_iter().map(|name| LockName::new(name).map_err(|_| damaged("a name"))).collect()
    }

    /// Reads one record, without its mutex.
    pub(crate) async fn look(
        &self,
        name: &LockName,
        action: &Action,
    ) -> Result<Answer, StoreError> {
        let values = [(&name.as_str() as _, Type::TEXT)];
        let rows = self.sessions.query(&self.statements.read, &values).await?;
        let row = rows.first().ok_or_else(|| damaged("an answer"))?;
        let now = now(row.get(0))?;
        let mut record = record::read(name, row.get("record"))?;
        // Nothing is granted here, so nothing is drawn.
        let (mut counter, rules) = (0, Rules { held_back: true, ..Rules::USUAL });
        if let Some(end) = released(&record, row.get("released"), action) {
            model::step(&mut record, &mut counter, now, rules, &end);
        }
        let Outcome { mut reply, .. } = model::step(&mut record, &mut counter, now, rules, action);
        if let Reply::Status(status) = &mut reply
            && status.is_free()
        {
            let store = (self.sessions, self.statements);
            // This only explains why a free name is not granted. So an error here is ignored.
            let by = held_back::find(store, Some(std::slice::from_ref(name))).await;
            status.held_back = by.unwrap_or_default().iter().map(ToString::to_string).collect();
        }
        Ok(Answer::new(now, reply))
    }
}

/// The record of a name under its mutex.
struct Opened {
    /// The version of its row and the text of its record, if it has a row.
    row: Option<(String, String)>,
    /// The record before the step and after it.
    before: Record,
    record: Record,
    /// The counter of the name before the step and after it.
    drawn_before: u64,
    counter: u64,
    /// The token of a hold that a transaction has released.
    released: Option<i64>,
    /// The reason for which the record cannot be read.
    unreadable: Option<StoreError>,
}

fn read(rows: &[Row]) -> Result<(Now, BTreeMap<LockName, Opened>), StoreError> {
    let first = rows.first().ok_or_else(|| damaged("an answer"))?;
    let now = now(first.get(0))?;
    let mut opened = BTreeMap::new();
    for row in rows {
        let name = LockName::new(row.get::<_, String>("name")).map_err(|_| damaged("a name"))?;
        let text: Option<String> = row.get("record");
        let (record, unreadable) = match record::read(&name, text.as_deref()) {
            Ok(record) => (record, None),
            Err(error) => (Record::default(), Some(error)),
        };
        let counter = u64::try_from(row.get::<_, i64>("counter"));
        let counter = counter.map_err(|_| damaged("a number in the table `counter`"))?;
        let row = Opened {
            row: row.get::<_, Option<String>>("version").zip(text),
            before: record.clone(),
            record,
            drawn_before: counter,
            counter,
            released: row.get("released"),
            unreadable,
        };
        opened.insert(name, row);
    }
    Ok((now, opened))
}

/// The time from which new leases may be granted.
fn boot_row(rows: &[Row]) -> Option<i64> {
    rows.first()?.get("grants_from_us")
}

fn now_us(rows: &[Row]) -> i64 {
    rows.first().map_or(0, |row| row.get(0))
}

/// Whether an operation asks for a lease that its caller does not have. A waiter may ask in a
/// quarantine, so that it keeps its place.
fn is_newcomer(operation: &Operation) -> bool {
    let Operation::On { action: Action::Take(take), .. } = operation else { return false };
    matches!(take, Take { place: None, from: None, claim: None, .. })
}

/// The end of a hold that a transaction has released by its commit (`release_at_commit`). `None`
/// if `action` is the holder's own end, which does the same.
fn released(record: &Record, token: Option<i64>, action: &Action) -> Option<Action> {
    let (id, token_us) = exclusive(record)?;
    let is_own = matches!(action, Action::End(End { request, .. }) if request.id == id);
    let is_released = token == Some(number(token_us)) && !is_own;
    let request = Request::new(id, Mode::Exclusive, HolderInfo::default());
    is_released.then(|| Action::End(End::new(request)))
}

/// The records of the names of one operation.
struct Stepping<'a> {
    opened: BTreeMap<LockName, Opened>,
    held_back: &'a BTreeSet<LockName>,
    rules: Rules,
}

impl Records for Stepping<'_> {
    type Error = StoreError;

    fn list(&mut self, _: Now, _: &str, _: u32) -> Result<Vec<LockName>, StoreError> {
        Err(StoreError::unknown_request())
    }

    fn page(&mut self, _: Now, _: &str, _: Option<&str>, _: u32) -> Result<Page, StoreError> {
        Err(StoreError::unknown_request())
    }

    fn step(&mut self, now: Now, name: &LockName, action: &Action) -> Result<Outcome, StoreError> {
        let opened = self.opened.get_mut(name).ok_or_else(|| damaged("an answer"))?;
        if let Some(unreadable) = &opened.unreadable {
            return Err(unreadable.clone());
        }
        let Opened { record, counter, released: token, .. } = opened;
        let rules = Rules { held_back: self.held_back.contains(name), ..self.rules };
        let mut messages = match released(record, *token, action) {
            Some(end) => model::step(record, counter, now, rules, &end).messages,
            None => Vec::new(),
        };
        let outcome = model::step(record, counter, now, rules, action);
        messages.extend(outcome.messages);
        Ok(Outcome { reply: outcome.reply, messages })
    }

    fn keep(&mut self, now: Now, name: &LockName, keep: &Keep) -> Result<Outcome, StoreError> {
        let unreadable = [StoreErrorKind::Corrupt, StoreErrorKind::Version];
        match self.step(now, name, &Action::Keep(keep.clone())) {
            // The error ends this lease, and no other lease that is kept with it.
            Err(error) if unreadable.contains(&error.kind()) => {
                Ok(Outcome { reply: Reply::NotHeld, messages: Vec::new() })
            }
            stepped => stepped,
        }
    }
}

/// The changes that `close` writes, as parallel columns.
#[derive(Default)]
struct Changes {
    names: Vec<String>,
    versions: Vec<Option<String>>,
    records: Vec<Option<String>>,
    fences: Vec<Option<i64>>,
    used_us: Vec<i64>,
    kept_us: Vec<i64>,
    tokens: Vec<Option<i64>>,
    counters: Vec<Option<i64>>,
}

impl Changes {
    fn of(opened: BTreeMap<LockName, Opened>) -> Self {
        let mut changed = Self::default();
        for (name, Opened { row, before, record, drawn_before, counter, unreadable, .. }) in opened
        {
            let text = (!record.is_empty()).then(|| record.to_text());
            let (version, stored) = row.unzip();
            if unreadable.is_some() || text == stored {
                continue;
            }
            let (used_us, kept_us) = record::ends(&record);
            let known = holds(&before);
            let granted = holds(&record).into_iter().filter(|hold| !known.contains(hold));
            let newest = granted.map(|(_, token_us)| number(token_us)).max();
            let drawn = (counter != drawn_before).then_some(counter);
            changed.names.push(name.as_str().to_owned());
            changed.versions.push(version);
            changed.records.push(text);
            changed.fences.push(exclusive(&record).map(|(_, token_us)| number(token_us)));
            changed.used_us.push(used_us);
            changed.kept_us.push(kept_us);
            changed.tokens.push(newest);
            changed.counters.push(drawn.map(|it| i64::try_from(it).unwrap_or(i64::MAX)));
        }
        changed
    }

    /// Whether a token is granted.
    fn has_tokens(&self) -> bool {
        self.tokens.iter().any(Option::is_some)
    }

    fn values<'a>(&'a self, is_flushed: &'a bool) -> [Value<'a>; 9] {
        [
            (&self.names, Type::TEXT_ARRAY),
            (&self.versions, Type::TEXT_ARRAY),
            (&self.records, Type::TEXT_ARRAY),
            (&self.fences, Type::INT8_ARRAY),
            (&self.used_us, Type::INT8_ARRAY),
            (&self.kept_us, Type::INT8_ARRAY),
            (&self.tokens, Type::INT8_ARRAY),
            (&self.counters, Type::INT8_ARRAY),
            (is_flushed, Type::BOOL),
        ]
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

/// A token in the form of the database: its number, with the twelve low bits zero.
fn number(token_us: u64) -> i64 {
    i64::try_from(FencingToken::from_micros(token_us).get()).unwrap_or(i64::MAX)
}

/// Whether somebody relies on the write once the request is answered: then it must be on disk. If a
/// crash loses any other write, the loss only delays somebody, and grants nothing.
fn is_flushed(operation: &Operation, reply: &Reply) -> bool {
    let Operation::On { action, .. } = operation else { return true };
    match action {
        Action::End(end) => !end.cooldown.is_zero(),
        Action::Take(_) => matches!(reply, Reply::Granted(_)),
        _ => true,
    }
}
