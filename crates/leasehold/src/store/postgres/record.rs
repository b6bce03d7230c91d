//! The record of a name in its row: the bytes that the general path has written, and in separate
//! columns the later changes by quick paths.

use leasehold_core::model::{Hold, LastHold, Record, Sweep, UnreadableRecord};
use leasehold_core::{
    Acquire, FencingToken, HoldState, LOCK_CAPACITY, LockName, Now, StoreError, StoreErrorKind,
};
use tokio_postgres::Row;

/// Reads the record of a row, from this column on; an empty record if the name has no row.
pub(crate) fn read(name: &LockName, row: &Row, at: usize) -> Result<Record, StoreError> {
    let Some(bytes) = row.get::<_, Option<Vec<u8>>>(at) else { return Ok(Record::default()) };
    let record = Record::from_bytes(&bytes).and_then(|record| since(record, row, at + 1));
    record.map_err(|unreadable| {
        let text = format!(
            "{unreadable}: {:?}; with nobody at work, delete its rows in the tables `lock` and \
             `token`, or use the release of leasehold that has written them",
            name.as_str()
        );
        StoreError::new(unreadable.kind(), text)
    })
}

/// The record with the changes that quick paths have made since the record was written.
fn since(mut record: Record, row: &Row, at: usize) -> Result<Record, UnreadableRecord> {
    let time = |column: usize| {
        let us = row.get::<_, Option<i64>>(at + column).and_then(|us| u64::try_from(us).ok());
        us.ok_or(UnreadableRecord::Damaged)
    };
    let given = |column: usize| row.get::<_, Option<Vec<u8>>>(at + column);
    if row.get::<_, Option<i64>>(at + 2).is_none() {
        return Ok(record);
    }
    record.capacity = LOCK_CAPACITY;
    (record.last_token_us, record.collect_at_us) = (token_us(time(0)?)?, time(1)?);
    if let Some(ended) = given(8) {
        let Hold { id, info, .. } = hold(&ended)?;
        record.last = Some(LastHold { id, ended_us: time(9)?, info });
    }
    if let Some(held) = given(3) {
        let (deadline_us, ttl_us) = (time(4)?, time(5)?);
        let (token_us, since_us) = (record.last_token_us, time(2)?);
        record.holds = vec![Hold { token_us, since_us, deadline_us, ttl_us, ..hold(&held)? }];
        record.sweep = Sweep { bound_us: time(6)?, longest_ttl_us: time(7)?, ..Sweep::default() };
    }
    let record = record.indexed();
    record.is_sound().then_some(record).ok_or(UnreadableRecord::Damaged)
}

/// The hold that an acquire asks for, in the form that quick paths store: as a record whose times
/// are zero.
pub(crate) fn gift(Acquire { id, mode, nonce, info, .. }: &Acquire) -> Vec<u8> {
    let hold = Hold {
        id: *id,
        weight: mode.weight(),
        state: HoldState::Claimed,
        token_us: 0,
        since_us: 0,
        deadline_us: 0,
        ttl_us: 0,
        nonce: *nonce,
        info: info.clone(),
    };
    let sweep = Sweep { bound_us: 0, ..Sweep::default() };
    let capacity = mode.capacity();
    let record = Record { capacity, holds: vec![hold], sweep, ..Record::default() };
    record.indexed().to_bytes()
}

fn hold(gift: &[u8]) -> Result<Hold, UnreadableRecord> {
    Record::from_bytes(gift)?.holds.pop().ok_or(UnreadableRecord::Damaged)
}

/// The time from which quick paths may grant a record: late requests of all its ended attempts are
/// too old by then. `None` if somebody holds or waits.
pub(crate) fn quick_from(record: &Record) -> Option<i64> {
    let is_at_rest =
        record.is_idle() && record.last_sequence == 0 && record.sweep == Sweep::default();
    let forgotten_us = record.tombstones.iter().map(|it| it.until_us).max().unwrap_or(0);
    is_at_rest.then(|| i64::try_from(forgotten_us).unwrap_or(i64::MAX))
}

fn token_us(number: u64) -> Result<u64, UnreadableRecord> {
    FencingToken::from_number(number).map(FencingToken::micros).ok_or(UnreadableRecord::Damaged)
}

pub(crate) fn now(us: i64) -> Result<Now, StoreError> {
    let us = u64::try_from(us).map_err(|_| damaged("the clock"))?;
    Ok(Now { lease_us: us, token_us: us })
}

pub(crate) fn damaged(what: &str) -> StoreError {
    let text = format!("{what} in the database is not what it should be");
    StoreError::new(StoreErrorKind::Corrupt, text)
}
