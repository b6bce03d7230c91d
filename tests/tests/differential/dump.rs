//! The record of a lock as the scripts keep it, read independently of them, and checked for what
//! the model does not have: links, indices and sums.

use std::collections::{BTreeMap, HashMap};

use leasehold::store::redis::wire::{facts_of, holder_of, whole};
use leasehold_core::model::{Hold, Record, Seen, Sweep, Tombstone, Waiting};
use leasehold_core::{ClientId, HoldState, HolderId};

/// The fields of a lock's hash.
pub(crate) type Fields = HashMap<Vec<u8>, Vec<u8>>;

/// The record in the fields of a hash, or what is wrong with them. No field: no record.
pub(crate) fn record(fields: &Fields) -> Result<Record, String> {
    let mut record = Record::default();
    let Some(state) = fields.get(&b"s"[..]) else {
        return if fields.is_empty() { Ok(record) } else { Err("fields without a state".into()) };
    };
    let mut seen = vec![b"s".to_vec()];
    let (count, used) = read_state(&mut Bytes(state), &mut record).ok_or("the state")?;
    for index in 1..count {
        let field = [b"h", &index.to_le_bytes()[..]].concat();
        let hold = fields.get(&field).and_then(|raw| Bytes(raw).hold()).ok_or("a hold")?;
        let index_field = [b"i", &id_bytes(hold.id)[..]].concat();
        if fields.get(&index_field) != Some(&index.to_le_bytes().to_vec()) {
            return Err(format!("the index of {}", hold.id));
        }
        record.holds.push(hold);
        seen.extend([field, index_field]);
    }
    if record.holds.iter().map(|hold| u64::from(hold.weight)).sum::<u64>() != u64::from(used) {
        return Err(format!("the sum of weights is {used}"));
    }
    if let Some(raw) = fields.get(&b"q"[..]) {
        seen.push(b"q".to_vec());
        seen.extend(read_queue(&mut Bytes(raw), fields, &mut record).ok_or("the queue")?);
    }
    if let Some(raw) = fields.get(&b"t"[..]) {
        seen.push(b"t".to_vec());
        record.tombstones = read_tombstones(Bytes(raw)).ok_or("tombstones")?;
    }
    match fields.keys().find(|field| !seen.contains(field)) {
        Some(field) => Err(format!("a field {} too many", field.escape_ascii())),
        None => Ok(record),
    }
}

/// Reads the state and the first hold. Gives how many holds there are, and the sum of weights.
fn read_state(bytes: &mut Bytes<'_>, record: &mut Record) -> Option<(u32, u32)> {
    if bytes.byte()? != 1 {
        return None;
    }
    record.capacity = bytes.word()?;
    record.last_token_us = bytes.number()?;
    record.collect_at_us = bytes.number()?;
    if bytes.0.is_empty() {
        return Some((0, 0));
    }
    let count = bytes.word()?;
    let used = bytes.word()?;
    record.sweep = Sweep {
        cursor: bytes.word()?,
        bound_us: bytes.number()?,
        running_us: bytes.number()?,
        longest_ttl_us: bytes.number()?,
    };
    record.upgrading = Some(bytes.id()?).filter(|id| id.client.0 != 0);
    record.holds.push(bytes.hold()?);
    (count > 0).then_some((count, used))
}

/// Follows the links from the head. Gives the fields that belong to the queue.
fn read_queue(bytes: &mut Bytes<'_>, fields: &Fields, record: &mut Record) -> Option<Vec<Vec<u8>>> {
    let count = bytes.word()?;
    record.last_sequence = bytes.number()?;
    let head_sequence = bytes.number()?;
    let (mut next, tail) = (bytes.id_bytes()?, bytes.id_bytes()?);
    let (mut before, mut seen) = ([0; 24], Vec::new());
    let mut waiting_of = BTreeMap::<ClientId, u32>::new();
    while next != [0; 24] {
        let field = [b"w", &next[..]].concat();
        let mut raw = Bytes(fields.get(&field)?);
        let sequence = raw.number()?;
        if record.queue.is_empty() && sequence != head_sequence || raw.id_bytes()? != before {
            return None;
        }
        let after = raw.id_bytes()?;
        let waiting = Waiting {
            id: holder_of(&next)?,
            weight: raw.word()?,
            ttl_us: raw.number()?,
            since_us: raw.number()?,
            nonce: u64::from_be_bytes(raw.take()?),
            facts: facts_of(raw.0)?,
        };
        *waiting_of.entry(waiting.id.client).or_default() += 1;
        record.queue.insert(sequence, waiting);
        seen.push(field);
        (before, next) = (next, after);
    }
    for (client, count) in waiting_of {
        let field = [b"c", &client.0.to_be_bytes()[..]].concat();
        let mut raw = Bytes(fields.get(&field)?);
        let client_seen = Seen { last_us: raw.number()?, waiting: raw.word()? };
        if client_seen.waiting != count || !raw.0.is_empty() {
            return None;
        }
        record.clients.insert(client, client_seen);
        seen.push(field);
    }
    (record.queue.len() == count as usize && before == tail && count > 0).then_some(seen)
}

fn read_tombstones(mut bytes: Bytes<'_>) -> Option<Vec<Tombstone>> {
    let mut tombstones = Vec::new();
    while !bytes.0.is_empty() {
        tombstones.push(Tombstone {
            client: ClientId(u128::from_be_bytes(bytes.take()?)),
            attempt: bytes.number()?,
            until_us: bytes.number()?,
        });
    }
    (!tombstones.is_empty()).then_some(tombstones)
}

fn id_bytes(id: HolderId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.client.0.to_be_bytes());
    bytes[16..].copy_from_slice(&(id.attempt as f64).to_le_bytes());
    bytes
}

/// What has not been read yet.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        whole(f64::from_le_bytes(self.take()?))
    }

    fn id_bytes(&mut self) -> Option<[u8; 24]> {
        self.take()
    }

    fn id(&mut self) -> Option<HolderId> {
        holder_of(&self.id_bytes()?)
    }

    /// A hold, with all that is left as its facts.
    fn hold(&mut self) -> Option<Hold> {
        Some(Hold {
            id: self.id()?,
            weight: self.word()?,
            state: match self.byte()? {
                0 => HoldState::Claimed,
                1 => HoldState::Kept,
                2 => HoldState::Revoked,
                3 => HoldState::Unclaimed,
                _ => return None,
            },
            token_us: self.number()?,
            since_us: self.number()?,
            deadline_us: self.number()?,
            ttl_us: self.number()?,
            nonce: u64::from_be_bytes(self.take()?),
            facts: facts_of(self.0)?,
        })
    }
}
