//! The record of one name in the database: one row, and a row for each of its own that does not
//! lie in that.

use leasehold_core::model::{Hold, Record, Seen, Sweep, Table as _, Tables, Waiting};
use leasehold_core::{ClientId, HolderId};

use super::codec::{Reader, Writer};
use super::rows::{Rows, Source};

/// The first byte of every record: the layout that this release reads and writes.
pub(super) const LAYOUT: u8 = 5;

/// What the rows of one table are marked with.
const HOLD: u8 = 1;
const SLOT: u8 = 2;
const WAITING: u8 = 3;
const SEQUENCE: u8 = 4;
const CLIENT: u8 = 5;

/// The tables of a record in the database.
pub(super) struct Stored<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Tables for Stored<'a> {
    type Holds = Rows<'a, u32, Hold>;
    type Slots = Rows<'a, HolderId, u32>;
    type Queue = Rows<'a, u64, Waiting>;
    type Sequences = Rows<'a, HolderId, u64>;
    type Clients = Rows<'a, ClientId, Seen>;
}

/// A record in the database.
pub(super) type StoredRecord<'a> = Record<Stored<'a>>;

/// Why bytes are no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Damaged,
    /// Written by a release with another layout.
    Layout(u8),
}

/// A record that says nothing but which token was the last.
pub(super) fn empty<'a>(source: &'a Source<'a>, last_token_us: u64) -> StoredRecord<'a> {
    Record {
        capacity: 0,
        asked: 0,
        used: 0,
        last_token_us,
        holds: Rows::empty(source, HOLD),
        slots: Rows::empty(source, SLOT),
        sweep: Sweep::default(),
        upgrading: None,
        queue: Rows::empty(source, WAITING),
        sequences: Rows::empty(source, SEQUENCE),
        last_sequence: 0,
        clients: Rows::empty(source, CLIENT),
        tombstones: Vec::new(),
        last: None,
        collect_at_us: 0,
    }
}

/// Writes the rows of a record that have changed. Gives what its own row is to say.
pub(super) fn encode(record: &mut StoredRecord<'_>) -> Vec<u8> {
    // Taken apart, so that a new field cannot be forgotten here.
    let Record {
        capacity,
        asked,
        used,
        last_token_us,
        holds,
        slots,
        sweep: Sweep { cursor, bound_us, running_us, longest_ttl_us },
        upgrading,
        queue,
        sequences,
        last_sequence,
        clients,
        tombstones,
        last,
        collect_at_us,
    } = record;
    let mut to = Writer(vec![LAYOUT]);
    to.u32(*capacity);
    to.u32(*asked);
    to.u32(*cursor);
    for number in [used, last_token_us, bound_us, running_us, longest_ttl_us] {
        to.u64(*number);
    }
    to.u64(*last_sequence);
    to.u64(*collect_at_us);
    to.list(upgrading.iter(), Writer::id);
    to.list(tombstones.iter(), Writer::tombstone);
    to.list(last.iter(), Writer::last_hold);
    holds.pack(&mut to);
    slots.pack(&mut to);
    queue.pack(&mut to);
    sequences.pack(&mut to);
    clients.pack(&mut to);
    to.0
}

/// Reads what the row of a record says.
pub(super) fn decode<'a>(
    source: &'a Source<'a>,
    bytes: &[u8],
) -> Result<StoredRecord<'a>, Unreadable> {
    let (layout, rest) = bytes.split_first().ok_or(Unreadable::Damaged)?;
    if *layout != LAYOUT {
        return Err(Unreadable::Layout(*layout));
    }
    let mut record = Reader::whole(rest, |from| read(source, from)).ok_or(Unreadable::Damaged)?;
    let bounds = record.bounds();
    source.expect(bounds);
    let is_sound = record.has_sound_head()
        && record.holds.is_sound(&bounds)
        && record.queue.is_sound(&bounds)
        && record.sequences.is_sound(&bounds)
        && record.clients.is_sound(&bounds)
        && record.upgrading.is_none_or(|reader| record.slots.find(reader).is_some());
    if is_sound { Ok(record) } else { Err(Unreadable::Damaged) }
}

fn read<'a>(source: &'a Source<'a>, from: &mut Reader<'_>) -> Option<StoredRecord<'a>> {
    let (capacity, asked, cursor) = (from.u32()?, from.u32()?, from.u32()?);
    let (used, last_token_us) = (from.u64()?, from.u64()?);
    let (bound_us, running_us, longest_ttl_us) = (from.u64()?, from.u64()?, from.u64()?);
    let (last_sequence, collect_at_us) = (from.u64()?, from.u64()?);
    let (upgrading, tombstones) = (from.option(Reader::id)?, from.list(Reader::tombstone)?);
    let last = from.option(Reader::last_hold)?;
    Some(Record {
        capacity,
        asked,
        used,
        last_token_us,
        sweep: Sweep { cursor, bound_us, running_us, longest_ttl_us },
        upgrading,
        last_sequence,
        tombstones,
        last,
        collect_at_us,
        holds: Rows::unpack(source, HOLD, from)?,
        slots: Rows::unpack(source, SLOT, from)?,
        queue: Rows::unpack(source, WAITING, from)?,
        sequences: Rows::unpack(source, SEQUENCE, from)?,
        clients: Rows::unpack(source, CLIENT, from)?,
    })
}
