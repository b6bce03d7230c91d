//! One operation on the records of some names: one transaction of two round trips. It takes the
//! mutexes of the names and reads (`open`), runs the pure step of the model here, and writes and
//! commits (`close`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::model::{self, Outcome, Record, Records, Rules};
use leasehold_core::{
    Action, Addressed, Answer, Effect, FencingToken, HoldState, HolderId, LOCK_CAPACITY, LockName,
    Now, Operation, Page, RenewLease, Reply, StoreError, StoreErrorKind,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::boot::{self, Start};
use super::connection::{Sessions, Taken, error};
use super::held_back;
use super::record::{self, damaged, now};
use super::schema::Statements;

/// The number of tries for a step that the server refuses with a passing error: 5.
const MOST_TRIES: u32 = 5;

/// The column at which the record begins in the rows of `open`.
const RECORD_AT: usize = 5;

/// The parts of a store that steps use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) statements: &'a Statements,
    pub(crate) rules: Rules,
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
            Operation::Renew(leases) => leases.iter().map(|lease| &lease.name).collect(),
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
        let (now, forgotten, opened) = read(&rows)?;
        let rules = match self.sessions.boot.start(boot_row(&rows), now_us(&rows)) {
            Start::Known => self.rules,
            Start::Quarantine(_) if !is_newcomer(operation) => self.rules.with_in_quarantine(true),
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
        let mut stepping = Stepping { opened, forgotten, held_back, rules };
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
        let mut record = record::read(name, row, 1)?;
        if let Some(release) = released(&record, row.get("released"), action) {
            model::step(&mut record, now, self.rules.with_held_back(true), &release);
        }
        let Outcome { mut reply, more, .. } = model::step(&mut record, now, self.rules, action);
        if let Reply::Status(status) = &mut reply
            && status.is_free()
        {
            let store = (self.sessions, self.statements);
            // This only explains why a free name is not granted. So an error here is ignored.
            let by = held_back::find(store, Some(std::slice::from_ref(name))).await;
            status.held_back = by.unwrap_or_default().iter().map(ToString::to_string).collect();
        }
        Ok(Answer::new(now, reply).with_more(more))
    }
}

/// The record of a name under its mutex.
struct Opened {
    /// The epoch and the number of changes of its row, if it has one, and the bytes of its record.
    row: Option<(i64, i32, Vec<u8>)>,
    /// The record before the step and after it.
    before: Record,
    record: Record,
    /// The token of a hold that a transaction has released.
    released: Option<i64>,
    /// The reason for which the record cannot be read.
    unreadable: Option<StoreError>,
}

fn read(rows: &[Row]) -> Result<(Now, u64, BTreeMap<LockName, Opened>), StoreError> {
    let first = rows.first().ok_or_else(|| damaged("an answer"))?;
    let now = now(first.get(0))?;
    let forgotten: Option<i64> = first.get(4);
    let forgotten = forgotten.and_then(|it| u64::try_from(it).ok());
    let forgotten = forgotten.ok_or_else(|| damaged("the number `forgotten`"))?;
    let mut opened = BTreeMap::new();
    for row in rows {
        let name = LockName::new(row.get::<_, String>(1)).map_err(|_| damaged("a name"))?;
        let found = row.get::<_, Option<i64>>(2).zip(row.get(3));
        let released = row.get("released");
        let (record, unreadable) = match record::read(&name, row, RECORD_AT) {
            Ok(record) => (record, None),
            Err(error) => (Record::default(), Some(error)),
        };
        let row = found.map(|(epoch, changes)| (epoch, changes, record.to_bytes()));
        let before = record.clone();
        opened.insert(name, Opened { row, before, record, released, unreadable });
    }
    Ok((now, forgotten, opened))
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
    let Operation::On { action, .. } = operation else { return false };
    action.effect().is_some_and(|effect| effect.is_new() && effect != Effect::HandOver)
}

/// The release of a hold that a transaction has ended by its commit (`release_at_commit`). `None`
/// if `action` is the holder's own release, which does the same.
fn released(record: &Record, token: Option<i64>, action: &Action) -> Option<Action> {
    let (id, token_us) = exclusive(record)?;
    let is_own = matches!(action, Action::Release { id: own, .. } if *own == id);
    let is_released = token == Some(number(token_us)) && !is_own;
    is_released.then_some(Action::Release { id, cooldown: Duration::ZERO, unanswered: false })
}

/// The records of the names of one operation.
struct Stepping<'a> {
    opened: BTreeMap<LockName, Opened>,
    forgotten: u64,
    held_back: &'a BTreeSet<LockName>,
    rules: Rules,
}

impl Records for Stepping<'_> {
    type Error = StoreError;

    fn list(&mut self, _: &str, _: u32) -> Result<Vec<LockName>, StoreError> {
        Err(StoreError::unknown_request())
    }

    fn page(&mut self, _: &str, _: Option<&str>, _: u32) -> Result<Page, StoreError> {
        Err(StoreError::unknown_request())
    }

    fn step(
        &mut self,
        mut now: Now,
        name: &LockName,
        action: &Action,
    ) -> Result<Outcome, StoreError> {
        let opened = self.opened.get_mut(name).ok_or_else(|| damaged("an answer"))?;
        if let Some(unreadable) = &opened.unreadable {
            return Err(unreadable.clone());
        }
        if opened.row.is_none() {
            // The store may have forgotten this name and its last token. So the new token is above
            // all forgotten ones.
            let forgotten = FencingToken::from_number(self.forgotten);
            now.token_us = now.token_us.max(forgotten.map_or(0, |token| token.micros() + 1));
        }
        let rules = self.rules.with_held_back(self.held_back.contains(name));
        let mut told = match released(&opened.record, opened.released, action) {
            Some(release) => model::step(&mut opened.record, now, rules, &release).messages,
            None => Vec::new(),
        };
        let mut outcome = model::step(&mut opened.record, now, rules, action);
        told.append(&mut outcome.messages);
        outcome.messages = told;
        Ok(outcome)
    }

    fn renew(&mut self, now: Now, lease: &RenewLease) -> Result<Outcome, StoreError> {
        let unreadable = [StoreErrorKind::Corrupt, StoreErrorKind::Version];
        match self.step(now, &lease.name, &lease.action()) {
            // The error ends this lease, and no other lease that is renewed with it.
            Err(error) if unreadable.contains(&error.kind()) => Ok(Outcome {
                reply: Reply::NotHeld { newest: None },
                messages: Vec::new(),
                more: false,
            }),
            stepped => stepped,
        }
    }
}

/// The changes that `close` writes, as parallel columns.
#[derive(Default)]
struct Changes {
    names: Vec<String>,
    epochs: Vec<Option<i64>>,
    changes: Vec<Option<i32>>,
    records: Vec<Vec<u8>>,
    idle: Vec<bool>,
    collect_at_us: Vec<i64>,
    last_tokens: Vec<i64>,
    fences: Vec<Option<i64>>,
    tokens: Vec<Option<i64>>,
    quick_from_us: Vec<Option<i64>>,
}

impl Changes {
    fn of(opened: BTreeMap<LockName, Opened>) -> Self {
        let mut changed = Self::default();
        for (name, Opened { row, before, record, unreadable, .. }) in opened {
            let is_worth_nothing = row.is_none() && record.collect_at_us == 0;
            if unreadable.is_some() || is_worth_nothing {
                continue;
            }
            let bytes = record.to_bytes();
            if row.as_ref().is_some_and(|(_, _, stored)| *stored == bytes) {
                continue;
            }
            changed.names.push(name.as_str().to_owned());
            changed.epochs.push(row.as_ref().map(|(epoch, ..)| *epoch));
            changed.changes.push(row.as_ref().map(|(_, changes, _)| *changes));
            changed.idle.push(record.is_idle());
            changed.collect_at_us.push(i64::try_from(record.collect_at_us).unwrap_or(i64::MAX));
            changed.last_tokens.push(number(record.last_token_us));
            let current = exclusive(&record);
            changed.fences.push(current.map(|(_, token_us)| number(token_us)));
            let gives = before.last_token_us != record.last_token_us
                || current.is_some() && current != exclusive(&before);
            let newest = current.map_or(record.last_token_us, |(_, token_us)| token_us);
            changed.tokens.push(gives.then(|| number(newest)));
            changed.quick_from_us.push(record::quick_from(&record));
            changed.records.push(bytes);
        }
        changed
    }

    /// Whether a token is granted.
    fn has_tokens(&self) -> bool {
        self.tokens.iter().any(Option::is_some)
    }

    fn values<'a>(&'a self, is_flushed: &'a bool) -> [super::connection::Value<'a>; 11] {
        [
            (&self.names, Type::TEXT_ARRAY),
            (&self.epochs, Type::INT8_ARRAY),
            (&self.changes, Type::INT4_ARRAY),
            (&self.records, Type::BYTEA_ARRAY),
            (&self.idle, Type::BOOL_ARRAY),
            (&self.collect_at_us, Type::INT8_ARRAY),
            (&self.last_tokens, Type::INT8_ARRAY),
            (&self.fences, Type::INT8_ARRAY),
            (&self.tokens, Type::INT8_ARRAY),
            (&self.quick_from_us, Type::INT8_ARRAY),
            (is_flushed, Type::BOOL),
        ]
    }
}

/// The hold that fences: the exclusive one, unless its end was noticed.
fn exclusive(record: &Record) -> Option<(HolderId, u64)> {
    let [hold] = &record.holds[..] else { return None };
    let is_whole = record.capacity == LOCK_CAPACITY && hold.weight == LOCK_CAPACITY;
    let is_held = matches!(hold.state, HoldState::Claimed | HoldState::Unclaimed);
    (is_whole && is_held).then_some((hold.id, hold.token_us))
}

/// A token in the form of the database: its number, with the twelve low bits zero.
fn number(token_us: u64) -> i64 {
    if token_us == 0 {
        return 0;
    }
    i64::try_from(FencingToken::from_micros(token_us).get()).unwrap_or(i64::MAX)
}

/// Whether somebody relies on the write once the request is answered: then it must be on disk. If a
/// crash loses any other write, the loss only delays somebody, and grants nothing.
fn is_flushed(operation: &Operation, reply: &Reply) -> bool {
    let Operation::On { action, .. } = operation else { return true };
    match action {
        Action::Release { cooldown, .. } => !cooldown.is_zero(),
        Action::Cancel { .. } | Action::Describe { .. } => false,
        Action::Acquire(_) | Action::Poll { .. } => matches!(reply, Reply::Granted(_)),
        _ => true,
    }
}
