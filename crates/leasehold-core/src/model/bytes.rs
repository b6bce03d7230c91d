//! A record as bytes, for stores that keep them: in a file, in a row of a database, anywhere.
//!
//! The first byte is the version. Numbers follow in groups of seven bits, the lowest first, each
//! group but the last with its highest bit set; texts and lists begin with their length; clients
//! and nonces, which are random, have their full width. What follows from the rest (how much is
//! taken, where each attempt is, how many wait for each client) is left out.
//!
//! Redis has another encoding, which its scripts can change in place: a hash with a field for each
//! hold and each waiter.

use std::time::Duration;

use super::record::Record;
use super::rows::{Hold, LastHold, Seen, Sweep, Tombstone, Waiting};
use crate::error::StoreErrorKind;
use crate::holder::{ClientId, Ending, HoldState, HolderId, HolderInfo, PassedOn};
use crate::request::Refusal;
use crate::time::micros;

/// The states of a hold and the ways in which it ends, by the numbers that stand for them.
const STATES: [HoldState; 4] =
    [HoldState::Claimed, HoldState::Cooldown, HoldState::Revoked, HoldState::Unclaimed];
const ENDINGS: [Ending; 6] = [
    Ending::Released,
    Ending::Expired,
    Ending::Revoked,
    Ending::Unclaimed,
    Ending::Adopted,
    Ending::Died,
];

/// Parts of a holder's info that are there only if their bit is set.
const LABEL: u8 = 1;
const ON_BEHALF_OF: u8 = 2;
const PASSED_ON: u8 = 4;

/// Why bytes are no record that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnreadableRecord {
    /// No step has made what they say.
    #[error("the record is damaged")]
    Damaged,
    /// A release with another version of the encoding has written them.
    #[error("the record has version {0}, and this release reads {ours}", ours = Record::VERSION)]
    Version(u8),
}

impl UnreadableRecord {
    /// The kind of a store's error that says so.
    pub const fn kind(self) -> StoreErrorKind {
        match self {
            Self::Damaged => StoreErrorKind::Corrupt,
            Self::Version(_) => StoreErrorKind::Version,
        }
    }

    /// The reply that says so of one lease that is renewed with others.
    pub const fn refusal(self) -> Refusal {
        match self {
            Self::Damaged => Refusal::Damaged,
            Self::Version(found) => Refusal::Version { found: found as u32 },
        }
    }
}

impl Record {
    /// The first byte of every record that this release reads and writes.
    pub const VERSION: u8 = 1;

    /// The record as bytes, from which [`from_bytes`](Self::from_bytes) makes the same record.
    ///
    /// A store may rely on these bytes for as long as it is used with one version. What they mean
    /// is nobody else's business: another release may write others, with another first byte.
    ///
    /// # Cost
    ///
    /// An idle record has some 30 bytes, and some 60 more once somebody has held. Each waiter adds
    /// some 80 and each hold some 75, with its host and label.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold_core::model::{Record, UnreadableRecord};
    ///
    /// let bytes = Record::default().to_bytes();
    /// assert_eq!(Record::from_bytes(&bytes), Ok(Record::default()));
    /// assert_eq!(Record::from_bytes(&bytes[..9]), Err(UnreadableRecord::Damaged));
    /// assert_eq!(Record::from_bytes(&[99]), Err(UnreadableRecord::Version(99)));
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Taken apart, so that a new field cannot be forgotten here.
        let Self {
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
            last,
            collect_at_us,
        } = self;
        let mut to = Writer(Vec::with_capacity(128 + 96 * (holds.len() + queue.len())));
        to.0.push(Self::VERSION);
        to.numbers([(*capacity).into(), (*asked).into(), *last_token_us, *last_sequence]);
        to.numbers([*cursor as u64, *bound_us, *running_us, *longest_ttl_us, *collect_at_us]);
        to.list(upgrading.iter(), |to, id| to.id(*id));
        to.list(holds.iter(), Writer::hold);
        to.list(clients.iter(), |to, (client, Seen { last_us, waiting: _ })| {
            to.client(*client);
            to.number(*last_us);
        });
        to.list(queue.iter(), |to, (sequence, waiting)| {
            to.number(*sequence);
            to.waiting(waiting);
        });
        to.list(tombstones.iter(), |to, tombstone| {
            let Tombstone { client, attempt, until_us, revoked } = *tombstone;
            to.client(client);
            to.numbers([attempt, until_us, revoked.into()]);
        });
        to.list(last.iter(), Writer::last_hold);
        to.0
    }

    /// The record that some bytes say.
    ///
    /// Any bytes may be given: those of a damaged disk make no record that a step cannot reckon
    /// with.
    ///
    /// # Errors
    ///
    /// [`UnreadableRecord`] tells bytes of another version from damage. A store leaves both as they
    /// are, and says [the kind](UnreadableRecord::kind) of error to each caller that asks for the
    /// name.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, UnreadableRecord> {
        let (version, rest) = bytes.split_first().ok_or(UnreadableRecord::Damaged)?;
        if *version != Self::VERSION {
            return Err(UnreadableRecord::Version(*version));
        }
        let mut from = Reader(rest);
        let record = from.record().filter(|_| from.0.is_empty()).and_then(Self::counted);
        record.filter(Self::is_possible).ok_or(UnreadableRecord::Damaged)
    }

    /// The same record with all that was left out; `None` if a client is there without a waiter, or
    /// a waiter without its client.
    fn counted(mut self) -> Option<Self> {
        for waiting in self.queue.values() {
            self.clients.get_mut(&waiting.id.client)?.waiting += 1;
        }
        let is_sound = self.clients.values().all(|seen| seen.waiting > 0);
        is_sound.then(|| self.indexed())
    }
}

/// Bytes that are being written.
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn client(&mut self, client: ClientId) {
        self.0.extend_from_slice(&client.0.to_le_bytes());
    }

    fn id(&mut self, id: HolderId) {
        self.client(id.client);
        self.number(id.attempt);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.number(items.len() as u64);
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
            info,
        } = hold;
        self.id(*id);
        self.0.push(place(&STATES, state));
        self.numbers([(*weight).into(), *token_us, *since_us, *deadline_us, *ttl_us, *change]);
        self.0.extend_from_slice(&nonce.to_le_bytes());
        self.info(info);
    }

    fn waiting(&mut self, waiting: &Waiting) {
        let Waiting { id, weight, capacity, ttl_us, since_us, nonce, info } = waiting;
        self.id(*id);
        self.numbers([(*weight).into(), (*capacity).into(), *ttl_us, *since_us]);
        self.0.extend_from_slice(&nonce.to_le_bytes());
        self.info(info);
    }

    fn last_hold(&mut self, last: &LastHold) {
        let LastHold { id, weight, capacity, token_us, since_us, ended_us, ending, info } = last;
        self.id(*id);
        self.0.push(place(&ENDINGS, ending));
        self.numbers([(*weight).into(), (*capacity).into(), *token_us, *since_us, *ended_us]);
        self.info(info);
    }

    fn info(&mut self, info: &HolderInfo) {
        let PassedOn { times, after } = info.passed_on();
        self.text(&info.host);
        self.number(info.pid.into());
        let bit = |bit, is_there| if is_there { bit } else { 0 };
        self.0.push(
            bit(LABEL, info.label.is_some())
                | bit(ON_BEHALF_OF, !info.on_behalf_of().is_empty())
                | bit(PASSED_ON, times > 0),
        );
        info.label.iter().for_each(|label| self.text(label));
        if !info.on_behalf_of().is_empty() {
            self.list(info.on_behalf_of().iter(), |to, client| to.client(*client));
        }
        if times > 0 {
            self.numbers([times.into(), micros(after)]);
        }
    }
}

/// The number that stands for a value.
fn place<T: PartialEq>(values: &[T], value: &T) -> u8 {
    values.iter().position(|known| known == value).unwrap_or_default() as u8
}

/// Bytes that are still to be read; what is read is `None` when they are not what they should be.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if byte <= 0x7f {
                return (bits << shift >> shift == bits).then_some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn client(&mut self) -> Option<ClientId> {
        self.array().map(u128::from_le_bytes).map(ClientId)
    }

    fn id(&mut self) -> Option<HolderId> {
        Some(HolderId { client: self.client()?, attempt: self.number()? })
    }

    fn nonce(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        str::from_utf8(text).ok().map(str::to_owned)
    }

    fn list<T, L: FromIterator<T>>(&mut self, each: fn(&mut Self) -> Option<T>) -> Option<L> {
        (0..self.number()?).map(|_| each(self)).collect()
    }

    fn option<T>(&mut self, each: fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => each(self).map(Some),
            _ => None,
        }
    }

    fn record(&mut self) -> Option<Record> {
        let (capacity, asked) = (self.small()?, self.small()?);
        let (last_token_us, last_sequence) = (self.number()?, self.number()?);
        let sweep = Sweep {
            cursor: usize::try_from(self.number()?).ok()?,
            bound_us: self.number()?,
            running_us: self.number()?,
            longest_ttl_us: self.number()?,
        };
        Some(Record {
            capacity,
            asked,
            last_token_us,
            last_sequence,
            sweep,
            collect_at_us: self.number()?,
            upgrading: self.option(Self::id)?,
            holds: self.list(Self::hold)?,
            clients: self.list(|from| {
                Some((from.client()?, Seen { last_us: from.number()?, waiting: 0 }))
            })?,
            queue: self.list(|from| Some((from.number()?, from.waiting()?)))?,
            tombstones: self.list(Self::tombstone)?,
            last: self.option(Self::last_hold)?,
            ..Record::default()
        })
    }

    fn hold(&mut self) -> Option<Hold> {
        Some(Hold {
            id: self.id()?,
            state: *STATES.get(usize::from(self.byte()?))?,
            weight: self.small()?,
            token_us: self.number()?,
            since_us: self.number()?,
            deadline_us: self.number()?,
            ttl_us: self.number()?,
            change: self.number()?,
            nonce: self.nonce()?,
            info: self.info()?,
        })
    }

    fn waiting(&mut self) -> Option<Waiting> {
        Some(Waiting {
            id: self.id()?,
            weight: self.small()?,
            capacity: self.small()?,
            ttl_us: self.number()?,
            since_us: self.number()?,
            nonce: self.nonce()?,
            info: self.info()?,
        })
    }

    fn tombstone(&mut self) -> Option<Tombstone> {
        Some(Tombstone {
            client: self.client()?,
            attempt: self.number()?,
            until_us: self.number()?,
            revoked: match self.byte()? {
                0 => false,
                1 => true,
                _ => return None,
            },
        })
    }

    fn last_hold(&mut self) -> Option<LastHold> {
        Some(LastHold {
            id: self.id()?,
            ending: *ENDINGS.get(usize::from(self.byte()?))?,
            weight: self.small()?,
            capacity: self.small()?,
            token_us: self.number()?,
            since_us: self.number()?,
            ended_us: self.number()?,
            info: self.info()?,
        })
    }

    fn info(&mut self) -> Option<HolderInfo> {
        let (host, pid, what_follows) = (self.text()?, self.small()?, self.byte()?);
        let has = |bit| what_follows & bit != 0;
        let label = if has(LABEL) { Some(self.text()?) } else { None };
        let on_behalf_of = if has(ON_BEHALF_OF) { self.list(Self::client)? } else { Vec::new() };
        let passed_on = if has(PASSED_ON) {
            let times = self.number()?.try_into().ok()?;
            PassedOn { times, after: Duration::from_micros(self.number()?) }
        } else {
            PassedOn::default()
        };
        let info = HolderInfo::new(host, pid).with_label(label);
        let info = info.with_on_behalf_of(on_behalf_of).with_passed_on(passed_on);
        (what_follows <= LABEL | ON_BEHALF_OF | PASSED_ON).then_some(info)
    }
}
