//! A database of the release before: its records had all their rows in them.
//!
//! They are written again as they were, with the last token, the holders and the waiters of every
//! name, when nobody has the database open.

use std::collections::BTreeMap;

use leasehold_core::model::{Holds as _, Record, Seen, Sweep, Table as _};
use leasehold_core::{LockName, StoreError};
use rusqlite::Transaction;

use super::codec::{Key, Reader};
use super::location::Location;
use super::record::{self, StoredRecord};
use super::rows::Source;

/// The layout of records that can be read here.
pub(super) const LAYOUT: u8 = 3;

/// Writes all records again.
pub(super) fn records(
    transaction: &Transaction<'_>,
    location: &Location,
) -> Result<(), StoreError> {
    let failed = |error| location.database_error(error);
    let mut names = transaction.prepare("SELECT name FROM lock").map_err(failed)?;
    let names = names.query_map([], |row| row.get(0)).map_err(failed)?;
    let names: Vec<String> = names.collect::<rusqlite::Result<_>>().map_err(failed)?;
    for name in names {
        let Ok(name) = LockName::new(name) else { continue };
        let of_name = [name.as_str()];
        let sql = "SELECT record FROM lock WHERE name = ?1";
        let before: Vec<u8> =
            transaction.query_row(sql, of_name, |row| row.get(0)).map_err(failed)?;
        let source = Source::new(transaction, location, &name);
        let mut record = record::empty(&source, 0);
        // One that is damaged stays so, for whoever asks for its name to be told of.
        let after = decode(&before).map_or_else(
            || vec![record::LAYOUT],
            |before| {
                copy(before, &mut record);
                record::encode(&mut record)
            },
        );
        source.check()?;
        let sql = "UPDATE lock SET record = ?2 WHERE name = ?1";
        transaction.execute(sql, (name.as_str(), after)).map_err(failed)?;
    }
    Ok(())
}

/// Reads a record of that layout.
fn decode(bytes: &[u8]) -> Option<Record> {
    let rest = bytes.strip_prefix(&[LAYOUT])?;
    Reader::whole(rest, read).filter(Record::is_sound)
}

/// Adds to an empty record what another says.
fn copy(from: Record, to: &mut StoredRecord<'_>) {
    let Record {
        capacity,
        asked,
        used,
        last_token_us,
        holds,
        slots,
        sweep,
        upgrading,
        queue,
        sequences,
        last_sequence,
        clients,
        tombstones,
        past: _, // it kept none
        collect_at_us,
    } = from;
    (to.capacity, to.asked, to.used, to.sweep) = (capacity, asked, used, sweep);
    (to.upgrading, to.tombstones) = (upgrading, tombstones);
    to.last_token_us = last_token_us;
    to.last_sequence = last_sequence;
    to.collect_at_us = collect_at_us;
    holds.into_iter().for_each(|hold| to.holds.push(hold));
    slots.into_iter().for_each(|(id, slot)| to.slots.put(id, slot));
    queue.into_iter().for_each(|(sequence, waiting)| to.queue.put(sequence, waiting));
    sequences.into_iter().for_each(|(id, sequence)| to.sequences.put(id, sequence));
    clients.into_iter().for_each(|(client, seen)| to.clients.put(client, seen));
}

fn read(from: &mut Reader<'_>) -> Option<Record> {
    let (capacity, asked, cursor) = (from.u32()?, from.u32()?, from.u32()?);
    let last_token_us = from.u64()?;
    let (bound_us, running_us, longest_ttl_us) = (from.u64()?, from.u64()?, from.u64()?);
    let (last_sequence, collect_at_us) = (from.u64()?, from.u64()?);
    let record = Record {
        capacity,
        asked,
        last_token_us,
        sweep: Sweep { cursor, bound_us, running_us, longest_ttl_us },
        last_sequence,
        collect_at_us,
        upgrading: from.option(Reader::id)?,
        holds: from.list(Reader::hold)?,
        queue: map(from, |from| Some((from.u64()?, from.waiting()?)))?,
        clients: map(from, |from| {
            let client = from.client()?;
            Some((client, Seen { last_us: from.u64()?, waiting: from.u32()? }))
        })?,
        tombstones: from.list(Reader::tombstone)?,
        ..Record::default()
    };
    Some(record.indexed())
}

/// A list whose keys ascend: one that comes twice would make another disappear.
fn map<K: Key, V>(
    from: &mut Reader<'_>,
    each: fn(&mut Reader<'_>) -> Option<(K, V)>,
) -> Option<BTreeMap<K, V>> {
    let pairs: Vec<(K, V)> = from.list(each)?;
    let ascends = pairs.is_sorted_by(|(one, _), (next, _)| one < next);
    ascends.then(|| pairs.into_iter().collect())
}
