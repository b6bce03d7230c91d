//! What one transaction reads and writes: a row per name, and rows for what does not fit into it.

use leasehold_core::model::{self, Outcome, Rules};
use leasehold_core::{Action, ClientId, LockName, Now, Page, StoreError};
use rusqlite::{OptionalExtension, Params, Transaction};

use super::liveness::Liveness;
use super::location::Location;
use super::reap;
use super::record::{self, StoredRecord, Unreadable};
use super::rows::Source;

/// The largest number of the table `number`: 2⁵³ − 1, which any program reads exactly.
pub(super) const MAX_NUMBER: u64 = (1 << 53) - 1;

const READ: &str = "SELECT record, boot FROM lock WHERE name = ?1";
const INSERT: &str = "INSERT INTO lock VALUES (?1, ?2, ?3, ?4)";
const UPDATE: &str = "UPDATE lock SET boot = ?2, collect_at_us = ?3, record = ?4 WHERE name = ?1";
const ROWS: &str = "SELECT name, record, boot FROM lock WHERE name >= ?1 ORDER BY name";

/// A transaction under way.
pub(super) struct Writing<'a> {
    transaction: Transaction<'a>,
    location: &'a Location,
    boot: &'a str,
    pub(super) rules: Rules,
}

impl<'a> Writing<'a> {
    pub(super) fn new(
        transaction: Transaction<'a>,
        location: &'a Location,
        boot: &'a str,
        rules: Rules,
    ) -> Self {
        Self { transaction, location, boot, rules }
    }

    pub(super) fn commit(self) -> rusqlite::Result<()> {
        self.transaction.commit()
    }

    /// Runs some SQL of another module.
    pub(super) fn sql<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.transaction).map_err(|error| self.location.database_error(error))
    }

    /// Applies one action to one name. Tells as well whose deaths concern the attempt, if it waits.
    pub(super) fn step(
        &self,
        name: &LockName,
        mut now: Now,
        action: &Action,
        liveness: &Liveness,
    ) -> Result<(Outcome, Vec<ClientId>), StoreError> {
        self.edit(name, |record, is_new| {
            if is_new {
                // This name may have been forgotten, with its last token.
                now.token_us = now.token_us.max(self.number("highest_token_us")? + 1);
            }
            let rules = self.rules;
            let mut reaped = reap::reap_dead_clients(record, now, rules, liveness);
            let outcome = model::step(record, now, rules, action);
            if !outcome.messages.is_empty() {
                // Somebody was granted who had not been looked at.
                reaped.append(reap::reap_dead_clients(record, now, rules, liveness));
            }
            let watched = reap::watched(record, action, &outcome.reply);
            reaped.messages.extend(outcome.messages);
            let (messages, more) = (reaped.messages, reaped.more | outcome.more);
            Ok((Outcome { reply: outcome.reply, messages, more }, watched))
        })
    }

    /// Does something to the record of a name, which is empty if it is new.
    pub(super) fn edit<T>(
        &self,
        name: &LockName,
        work: impl FnOnce(&mut StoredRecord<'_>, bool) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let source = Source::new(&self.transaction, self.location, name);
        let found = self.read(name)?;
        let mut record = match &found {
            Some((bytes, boot)) => self.decode(&source, bytes, boot)?,
            None => record::empty(&source, 0),
        };
        if found.as_ref().is_none_or(|(_, boot)| boot != self.boot) {
            // What is left of before the machine was started, or of a row that was deleted by hand.
            self.run("DELETE FROM lock_row WHERE name = ?1", [name.as_str()])?;
        }
        let done = work(&mut record, found.is_none());
        source.check()?;
        let done = done?;
        if found.is_none() && record.collect_at_us == 0 {
            // Nothing was worth keeping: a name that was only asked about leaves no record.
            return Ok(done);
        }
        let after = record::encode(&mut record);
        source.check()?;
        if found.as_ref().is_none_or(|(before, _)| *before != after) {
            let sql = if found.is_none() { INSERT } else { UPDATE };
            self.run(sql, (name.as_str(), self.boot, signed(record.collect_at_us), after))?;
        }
        Ok(done)
    }

    /// Names that begin with `prefix`, in order, with those whose record cannot be read.
    pub(super) fn list(
        &self,
        prefix: &str,
        limit: u32,
        idle: bool,
    ) -> Result<Vec<LockName>, StoreError> {
        let mut names = Vec::new();
        self.each_row(prefix, |name, record| {
            if names.len() == limit as usize || !name.as_str().starts_with(prefix) {
                return false;
            }
            if record.is_none_or(|record| idle || !record.is_idle()) {
                names.push(name.clone());
            }
            true
        })?;
        Ok(names)
    }

    /// Those in use, or unreadable, of the next `keys` names that begin with `prefix` and come
    /// after `after`.
    pub(super) fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        keys: u32,
    ) -> Result<Page, StoreError> {
        let mut page = Page::default();
        self.each_row(after.unwrap_or(prefix), |name, record| {
            if after == Some(name.as_str()) {
                return true;
            }
            let is_used = record.is_none_or(|record| !record.is_idle());
            name.as_str().starts_with(prefix) && page.scan(name, is_used, keys)
        })?;
        Ok(page)
    }

    /// Some rows, in the order of their names, from the first name that follows `after` on.
    pub(super) fn rows(&self, after: &str, limit: u32) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each_row(after, |name, record| {
            if name.as_str() != after {
                let times = record.map(|record| (record.collect_at_us, record.last_token_us));
                rows.push(Row { name: name.clone(), times });
            }
            rows.len() < limit as usize
        })?;
        Ok(rows)
    }

    /// Calls `visit` with each name from `first` on and its record, unless that is damaged, until
    /// it says that it has seen enough.
    fn each_row(
        &self,
        first: &str,
        mut visit: impl FnMut(&LockName, Option<&StoredRecord<'_>>) -> bool,
    ) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let mut statement = self.transaction.prepare_cached(ROWS).map_err(failed)?;
        let mut rows = statement.query([first]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            // No name of ours: whoever has put it there may look for it.
            let Ok(name) = LockName::new(row.get::<_, String>(0).map_err(failed)?) else {
                continue;
            };
            let bytes: Vec<u8> = row.get(1).map_err(failed)?;
            let boot: String = row.get(2).map_err(failed)?;
            let source = Source::new(&self.transaction, self.location, &name);
            let record = self.decode(&source, &bytes, &boot);
            if !visit(&name, record.as_ref().ok()) {
                break;
            }
        }
        Ok(())
    }

    /// What the row of a name says, and in which start of the machine it was written.
    fn read(&self, name: &LockName) -> Result<Option<(Vec<u8>, String)>, StoreError> {
        self.sql(|transaction| {
            let mut statement = transaction.prepare_cached(READ)?;
            statement.query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
    }

    pub(super) fn remove(&self, name: &LockName) -> Result<(), StoreError> {
        self.run("DELETE FROM lock_row WHERE name = ?1", [name.as_str()])?;
        self.run("DELETE FROM lock WHERE name = ?1", [name.as_str()])
    }

    fn run(&self, sql: &str, parameters: impl Params) -> Result<(), StoreError> {
        self.sql(|transaction| transaction.prepare_cached(sql)?.execute(parameters).map(drop))
    }

    /// The record that a row says; of one from before the machine was started only the last token
    /// is left.
    fn decode<'s>(
        &self,
        source: &'s Source<'s>,
        bytes: &[u8],
        boot: &str,
    ) -> Result<StoredRecord<'s>, StoreError> {
        let decoded = record::decode(source, bytes);
        source.check()?;
        let record = decoded.map_err(|unreadable| match unreadable {
            Unreadable::Damaged => source.damaged(),
            Unreadable::Layout(found) => self.location.other_version(found.into()),
        })?;
        match boot == self.boot {
            true => Ok(record),
            false => Ok(record::empty(source, record.last_token_us)),
        }
    }

    /// A number that the store keeps; zero before it is set.
    pub(super) fn number(&self, name: &str) -> Result<u64, StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "SELECT value FROM number WHERE name = ?1";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        let value = statement.query_row([name], |row| row.get::<_, i64>(0)).optional();
        u64::try_from(value.map_err(failed)?.unwrap_or(0))
            .ok()
            .filter(|value| *value <= MAX_NUMBER)
            .ok_or_else(|| {
                let remedy = "with nobody at work, set it to 0 in the table `number`";
                self.location.damaged(&format!("the number {name:?}"), remedy)
            })
    }

    pub(super) fn set_number(&self, name: &str, value: u64) -> Result<(), StoreError> {
        let failed = |error| self.location.database_error(error);
        let sql = "INSERT OR REPLACE INTO number VALUES (?1, ?2)";
        let mut statement = self.transaction.prepare_cached(sql).map_err(failed)?;
        statement.execute((name, signed(value))).map_err(failed)?;
        Ok(())
    }
}

/// One name and what is known of it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: LockName,
    /// When it may be forgotten and its last token time, unless it is damaged.
    pub(super) times: Option<(u64, u64)>,
}

/// The database's integers are signed. Times in microseconds fit by far.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
