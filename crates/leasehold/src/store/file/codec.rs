//! A record as bytes.
//!
//! Every operation reads and writes the record of its name with all who wait in it, so this is
//! most of what a crowded name costs. As JSON, a record with 100 waiters took three quarters of the
//! time of an operation. Numbers have a fixed width, little end first; a list begins with its
//! length.

use std::collections::BTreeMap;

use leasehold_core::model::{Hold, Record, Seen, Sweep, Tombstone, Waiting};
use leasehold_core::{ClientId, Facts, HoldState, HolderId};

/// The first byte of every record: the layout that this release reads and writes.
pub(super) const LAYOUT: u8 = 3;

/// Why bytes are no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Damaged,
    /// Written by a release with another layout.
    Layout(u8),
}

pub(super) fn encode(record: &Record) -> Vec<u8> {
    // Taken apart, so that a new field cannot be forgotten here.
    let Record {
        capacity,
        asked,
        used: _,
        last_token_us,
        holds,
        slots: _,
        sweep: Sweep { cursor, bound_us, running_us, longest_ttl_us },
        upgrading,
        queue,
        sequences: _,
        last_sequence,
        clients,
        tombstones,
        collect_at_us,
    } = record;
    let mut to = Writer(vec![LAYOUT]);
    to.u32(*capacity);
    to.u32(*asked);
    to.u32(*cursor);
    for number in [last_token_us, bound_us, running_us, longest_ttl_us] {
        to.u64(*number);
    }
    to.u64(*last_sequence);
    to.u64(*collect_at_us);
    to.list(upgrading.iter(), Writer::id);
    to.list(holds.iter(), Writer::hold);
    to.list(queue.iter(), |to, (sequence, waiting)| {
        to.u64(*sequence);
        to.waiting(waiting);
    });
    to.list(clients.iter(), |to, (client, Seen { last_us, waiting })| {
        to.client(*client);
        to.u64(*last_us);
        to.u32(*waiting);
    });
    to.list(tombstones.iter(), |to, Tombstone { client, attempt, until_us }| {
        to.client(*client);
        to.u64(*attempt);
        to.u64(*until_us);
    });
    to.0
}

pub(super) fn decode(bytes: &[u8]) -> Result<Record, Unreadable> {
    let (layout, rest) = bytes.split_first().ok_or(Unreadable::Damaged)?;
    if *layout != LAYOUT {
        return Err(Unreadable::Layout(*layout));
    }
    let mut from = Reader(rest);
    let record = from.record().filter(|_| from.0.is_empty()).ok_or(Unreadable::Damaged)?;
    if record.is_sound() { Ok(record) } else { Err(Unreadable::Damaged) }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn client(&mut self, client: ClientId) {
        self.0.extend_from_slice(&client.0.to_le_bytes());
    }

    fn id(&mut self, id: &HolderId) {
        self.client(id.client);
        self.u64(id.attempt);
    }

    fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn facts(&mut self, facts: &Facts) {
        self.text(&facts.host);
        self.u32(facts.pid);
        self.list(facts.label.iter(), |to, label| to.text(label));
    }

    fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.u32(items.len() as u32);
        items.for_each(|item| each(self, item));
    }

    fn hold(&mut self, hold: &Hold) {
        let Hold {
            id,
            weight,
            state,
            token_us,
            since_us,
            deadline_us,
            ttl_us,
            change,
            nonce,
            facts,
        } = hold;
        self.id(id);
        self.u32(*weight);
        self.u32(match state {
            HoldState::Kept => 1,
            HoldState::Revoked => 2,
            HoldState::Unclaimed => 3,
            _ => 0, // claimed
        });
        for number in [token_us, since_us, deadline_us, ttl_us, change, nonce] {
            self.u64(*number);
        }
        self.facts(facts);
    }

    fn waiting(&mut self, waiting: &Waiting) {
        let Waiting { id, weight, capacity, ttl_us, since_us, nonce, facts } = waiting;
        self.id(id);
        self.u32(*weight);
        self.u32(*capacity);
        for number in [ttl_us, since_us, nonce] {
            self.u64(*number);
        }
        self.facts(facts);
    }
}

/// Reads what is left; `None` when that is not what it should be.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn client(&mut self) -> Option<ClientId> {
        self.array().map(u128::from_le_bytes).map(ClientId)
    }

    fn id(&mut self) -> Option<HolderId> {
        Some(HolderId { client: self.client()?, attempt: self.u64()? })
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    fn facts(&mut self) -> Option<Facts> {
        let (host, pid) = (self.text()?, self.u32()?);
        Some(Facts::new(host, pid).with_label(self.option(Self::text)?))
    }

    fn list<T, L: FromIterator<T>>(&mut self, each: fn(&mut Self) -> Option<T>) -> Option<L> {
        (0..self.u32()?).map(|_| each(self)).collect()
    }

    /// A list whose keys ascend: one that comes twice would make another disappear.
    fn map<K: Ord + Copy, V>(
        &mut self,
        each: fn(&mut Self) -> Option<(K, V)>,
    ) -> Option<BTreeMap<K, V>> {
        let pairs: Vec<(K, V)> = self.list(each)?;
        let ascends = pairs.is_sorted_by(|(one, _), (next, _)| one < next);
        ascends.then(|| pairs.into_iter().collect())
    }

    fn option<T>(&mut self, each: fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.u32()? {
            0 => Some(None),
            1 => each(self).map(Some),
            _ => None,
        }
    }

    fn record(&mut self) -> Option<Record> {
        let (capacity, asked, cursor) = (self.u32()?, self.u32()?, self.u32()?);
        let last_token_us = self.u64()?;
        let (bound_us, running_us, longest_ttl_us) = (self.u64()?, self.u64()?, self.u64()?);
        let (last_sequence, collect_at_us) = (self.u64()?, self.u64()?);
        let record = Record {
            capacity,
            asked,
            last_token_us,
            sweep: Sweep { cursor, bound_us, running_us, longest_ttl_us },
            last_sequence,
            collect_at_us,
            upgrading: self.option(Self::id)?,
            holds: self.list(Self::hold)?,
            queue: self.map(|from| Some((from.u64()?, from.waiting()?)))?,
            clients: self.map(|from| {
                let client = from.client()?;
                Some((client, Seen { last_us: from.u64()?, waiting: from.u32()? }))
            })?,
            tombstones: self.list(|from| {
                let client = from.client()?;
                Some(Tombstone { client, attempt: from.u64()?, until_us: from.u64()? })
            })?,
            ..Record::default()
        };
        Some(record.indexed())
    }

    fn hold(&mut self) -> Option<Hold> {
        Some(Hold {
            id: self.id()?,
            weight: self.u32()?,
            state: match self.u32()? {
                0 => HoldState::Claimed,
                1 => HoldState::Kept,
                2 => HoldState::Revoked,
                3 => HoldState::Unclaimed,
                _ => return None,
            },
            token_us: self.u64()?,
            since_us: self.u64()?,
            deadline_us: self.u64()?,
            ttl_us: self.u64()?,
            change: self.u64()?,
            nonce: self.u64()?,
            facts: self.facts()?,
        })
    }

    fn waiting(&mut self) -> Option<Waiting> {
        Some(Waiting {
            id: self.id()?,
            weight: self.u32()?,
            capacity: self.u32()?,
            ttl_us: self.u64()?,
            since_us: self.u64()?,
            nonce: self.u64()?,
            facts: self.facts()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowded() -> Record {
        let id = HolderId { client: ClientId(u128::MAX - 5), attempt: 7 };
        let facts = Facts::new("ü", 9).with_label(Some(String::new()));
        let states =
            [HoldState::Claimed, HoldState::Kept, HoldState::Revoked, HoldState::Unclaimed];
        let hold = |state| Hold {
            id,
            weight: 1,
            state,
            token_us: 2,
            since_us: 3,
            deadline_us: 4,
            ttl_us: 5,
            change: 25,
            nonce: u64::MAX,
            facts: facts.clone(),
        };
        let (weight, capacity, ttl_us, since_us, nonce) = (6, 7, 8, 10, 11);
        let facts = Facts::default();
        let waiting = Waiting { id, weight, capacity, ttl_us, since_us, nonce, facts };
        Record {
            capacity: 12,
            asked: 26,
            last_token_us: 13,
            holds: states.map(hold).into(),
            sweep: Sweep { cursor: 4, bound_us: 3, running_us: 2, longest_ttl_us: 17 },
            upgrading: Some(id),
            queue: [(18, waiting)].into(),
            last_sequence: 19,
            clients: [(id.client, Seen { last_us: 20, waiting: 1 })].into(),
            tombstones: vec![Tombstone { client: id.client, attempt: 22, until_us: 23 }],
            collect_at_us: 24,
            ..Record::default()
        }
        .indexed()
    }

    #[test]
    fn a_record_survives_its_bytes() {
        for record in [Record::default(), crowded()] {
            assert_eq!(decode(&encode(&record)).unwrap(), record);
        }
    }

    #[test]
    fn bytes_that_are_no_record_are_told_from_another_layout() {
        let bytes = encode(&crowded());
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(Unreadable::Damaged), "{length} bytes");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), Err(Unreadable::Damaged));
        assert_eq!(decode(&[1, 0, 0]), Err(Unreadable::Layout(1)));
    }
}
