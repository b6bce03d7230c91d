//! The record of a lock as the scripts keep it, read independently of the scripts. Links, indices
//! and sums, which the model does not have, are checked.

use std::collections::{BTreeMap, HashMap};

use leasehold::store::redis_wire::RECORD_VERSION;
use leasehold::store::redis_wire::Reader;
use leasehold_core::model::{Hold, Record, Seen, Sweep, Tombstone, Waiting};
use leasehold_core::{ClientId, HolderId};

/// The flag of a record whose facts begin with the field `g`.
const FACTS_FROM_G: u8 = 4;

/// The fields of a lock's hash.
pub(crate) type Fields = HashMap<Vec<u8>, Vec<u8>>;

/// The record in the fields of a hash, or the error in them. Without fields, there is no record.
pub(crate) fn record(fields: &Fields) -> Result<Record, String> {
    let mut record = Record::default();
    let Some(state) = fields.get(&b"s"[..]) else {
        return if fields.is_empty() { Ok(record) } else { Err("fields without a state".into()) };
    };
    // If a field of facts still has values of an earlier hold, these mean nothing.
    let mut seen: Vec<_> = [b"s", b"f", b"g"].map(|field| field.to_vec()).into();
    let flags = *state.get(1).ok_or("no flags")?;
    let (first, second) = if flags & FACTS_FROM_G == 0 { (b"f", b"g") } else { (b"g", b"f") };
    let facts_in = |field: &[u8; 1]| fields.get(&field[..]);
    let term = fields.get(&b"b"[..]).filter(|term| !term.is_empty());
    seen.extend(fields.contains_key(&b"b"[..]).then(|| b"b".to_vec()));
    let (count, used, of_last) = if let Some(term) = term {
        let facts = facts_in(first).ok_or("no facts of a lone hold")?;
        let hold = read_alone(Reader(state), Reader(term), Reader(facts), &mut record);
        record.holds.push(hold.ok_or("a lone hold")?);
        (1, record.holds[0].weight, facts_in(second))
    } else {
        let (count, used) = read_state(&mut Reader(state), &mut record).ok_or("the state")?;
        (count, used, facts_in(first))
    };
    for index in 1..count {
        let field = [b"h", &index.to_le_bytes()[..]].concat();
        let hold = fields.get(&field).and_then(|raw| hold(Reader(raw))).ok_or("a hold")?;
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
        seen.extend(read_queue(&mut Reader(raw), fields, &mut record).ok_or("the queue")?);
    }
    if let Some(raw) = fields.get(&b"t"[..]) {
        seen.push(b"t".to_vec());
        record.tombstones = read_tombstones(Reader(raw)).ok_or("tombstones")?;
    }
    if let Some(raw) = fields.get(&b"l"[..]) {
        seen.push(b"l".to_vec());
        let whole = [&raw[..], of_last.ok_or("no facts of the last hold")?].concat();
        record.last = Some(Reader(&whole).last_hold().ok_or("the last hold")?);
    }
    let flags = flags & !FACTS_FROM_G;
    if flags != u8::from(!record.queue.is_empty()) + 2 * u8::from(!record.tombstones.is_empty()) {
        return Err(format!("the flags are {flags}"));
    }
    match fields.keys().find(|field| !seen.contains(field)) {
        Some(field) => Err(format!("a field {} too many", field.escape_ascii())),
        None => Ok(record.indexed()),
    }
}

/// Reads the state of a lone hold, and what else is kept of it.
fn read_alone(
    mut state: Reader<'_>,
    mut term: Reader<'_>,
    facts: Reader<'_>,
    record: &mut Record,
) -> Option<Hold> {
    if state.byte()? != RECORD_VERSION {
        return None;
    }
    state.byte()?;
    record.capacity = state.word()?;
    (record.last_token_us, record.collect_at_us) = (state.time()?, state.time()?);
    let (id, weight, hold_state) = (state.id()?, state.word()?, state.hold_state()?);
    let (since_us, deadline_us) = (state.time()?, state.time()?);
    let (bound_us, ttl_us, nonce) = (term.time()?, term.time()?, term.nonce()?);
    record.sweep = Sweep { bound_us, longest_ttl_us: ttl_us, ..Sweep::default() };
    let hold = Hold {
        id,
        weight,
        state: hold_state,
        token_us: record.last_token_us,
        since_us,
        deadline_us,
        ttl_us,
        nonce,
        info: facts.info()?,
    };
    (state.0.is_empty() && term.0.is_empty()).then_some(hold)
}

/// Reads any other state, and the first hold. Returns the number of holds and the sum of their
/// weights.
fn read_state(packed: &mut Reader<'_>, record: &mut Record) -> Option<(u32, u32)> {
    if packed.byte()? != RECORD_VERSION {
        return None;
    }
    packed.byte()?;
    record.capacity = packed.word()?;
    (record.last_token_us, record.collect_at_us) = (packed.time()?, packed.time()?);
    if packed.0.is_empty() {
        return Some((0, 0));
    }
    let count = packed.word()?;
    let used = packed.word()?;
    record.sweep = Sweep {
        cursor: packed.word()? as usize,
        bound_us: packed.number()?,
        running_us: packed.number()?,
        longest_ttl_us: packed.number()?,
    };
    record.holds.push(hold(*packed)?);
    (count > 0).then_some((count, used))
}

/// Follows the links from the head. Returns the fields that belong to the queue.
fn read_queue(
    packed: &mut Reader<'_>,
    fields: &Fields,
    record: &mut Record,
) -> Option<Vec<Vec<u8>>> {
    let count = packed.word()?;
    record.last_sequence = packed.number()?;
    let head_sequence = packed.number()?;
    let (mut next, tail) = (packed.take::<24>()?, packed.take::<24>()?);
    let (mut before, mut seen) = ([0; 24], Vec::new());
    let mut waiting_of = BTreeMap::<ClientId, u32>::new();
    while next != [0; 24] {
        let field = [b"w", &next[..]].concat();
        let mut raw = Reader(fields.get(&field)?);
        let sequence = raw.number()?;
        if record.queue.is_empty() && sequence != head_sequence || raw.take::<24>()? != before {
            return None;
        }
        let after = raw.take::<24>()?;
        let waiting = Waiting {
            id: Reader(&next).id()?,
            weight: raw.word()?,
            capacity: raw.word()?,
            ttl_us: raw.number()?,
            since_us: raw.number()?,
            nonce: raw.nonce()?,
            info: raw.info()?,
        };
        *waiting_of.entry(waiting.id.client).or_default() += 1;
        record.queue.insert(sequence, waiting);
        seen.push(field);
        (before, next) = (next, after);
    }
    for (client, count) in waiting_of {
        let field = [b"c", &client.0.to_be_bytes()[..]].concat();
        let mut raw = Reader(fields.get(&field)?);
        let client_seen = Seen { last_us: raw.number()?, waiting: raw.word()? };
        if client_seen.waiting != count || !raw.0.is_empty() {
            return None;
        }
        record.clients.insert(client, client_seen);
        seen.push(field);
    }
    (record.queue.len() == count as usize && before == tail && count > 0).then_some(seen)
}

fn read_tombstones(mut packed: Reader<'_>) -> Option<Vec<Tombstone>> {
    let mut tombstones = Vec::new();
    while !packed.0.is_empty() {
        let (client, attempt) = (packed.client()?, packed.number()?);
        // Negative if the lease was ended immediately: the sign is the highest bit of the last.
        let revoked = packed.0.get(7)? & 0x80 != 0;
        let mut until = *packed.0.first_chunk::<8>()?;
        packed.0 = packed.0.get(8..)?;
        until[7] &= 0x7f;
        let until_us = Reader(&until).number()?;
        tombstones.push(Tombstone { client, attempt, until_us, revoked });
    }
    (!tombstones.is_empty()).then_some(tombstones)
}

fn id_bytes(id: HolderId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.client.0.to_be_bytes());
    bytes[16..].copy_from_slice(&(id.attempt as f64).to_le_bytes());
    bytes
}

/// A hold; the rest of the bytes are its facts.
fn hold(mut packed: Reader<'_>) -> Option<Hold> {
    Some(Hold {
        id: packed.id()?,
        weight: packed.word()?,
        state: packed.hold_state()?,
        token_us: packed.number()?,
        since_us: packed.number()?,
        deadline_us: packed.number()?,
        ttl_us: packed.number()?,
        nonce: packed.nonce()?,
        info: packed.info()?,
    })
}
