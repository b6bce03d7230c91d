//! A record as bytes, for stores that keep them: in a file, in a row of a database, anywhere.
//!
//! The first byte is the version. Numbers follow in groups of seven bits, the lowest first, each
//! group but the last with its highest bit set; texts and lists begin with their length; clients
//! and nonces, which are random, have their full width. Values that can be computed from the rest
//! are left out: how much is taken, where each attempt is, how many attempts of each client wait.
//!
//! Redis has another encoding, which its scripts can change in place: a hash with a field for each
//! hold and each waiter.

use std::collections::BTreeMap;
use std::time::Duration;

use super::record::Record;
use super::rows::{Hold, LastHold, Seen, Sweep, Tombstone, Waiting};
use crate::error::StoreErrorKind;
use crate::holder::{ClientId, HoldState, HolderId, HolderInfo, PassedOn};
use crate::request::Refusal;
use crate::time::micros;

/// The bits that say which optional parts of a holder's info are present.
const LABEL: u8 = 1;
const PASSED_ON: u8 = 2;

/// The reason for which bytes are not a usable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnreadableRecord {
    /// No step can have made this record.
    #[error("the record is damaged")]
    Damaged,
    /// A release with another version of the encoding has written the bytes.
    #[error("the record has version {0}, and this release reads {ours}", ours = Record::VERSION)]
    Version(u8),
}

impl UnreadableRecord {
    /// The kind of the store's error that reports this.
    pub const fn kind(self) -> StoreErrorKind {
        match self {
            Self::Damaged => StoreErrorKind::Corrupt,
            Self::Version(_) => StoreErrorKind::Version,
        }
    }

    /// The reply that reports this for one of several leases that are renewed together.
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
    /// A store may rely on these bytes for as long as it is used with one version. Do not interpret
    /// them: another release may write other bytes, with another first byte.
    ///
    /// # Cost
    ///
    /// An idle record has some 30 bytes, and some 60 more once somebody has held. Each waiter adds
    /// some 80 bytes and each hold some 75, with host and label.
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
        let mut to = Vec::with_capacity(128 + 96 * (self.holds.len() + self.queue.len()));
        to.push(Self::VERSION);
        self.write(&mut to);
        to
    }

    /// Reads a record from bytes.
    ///
    /// Any bytes may be given: bytes of a damaged disk never make a record that breaks a step.
    ///
    /// # Errors
    ///
    /// [`UnreadableRecord`] distinguishes bytes of another version from damage. A store leaves both
    /// as they are, and gives each caller that asks for the name an error of [this
    /// kind](UnreadableRecord::kind).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, UnreadableRecord> {
        let (version, mut rest) = bytes.split_first().ok_or(UnreadableRecord::Damaged)?;
        if *version != Self::VERSION {
            return Err(UnreadableRecord::Version(*version));
        }
        let record = Self::read(&mut rest).filter(|_| rest.is_empty()).and_then(Self::counted);
        record.filter(Self::is_possible).ok_or(UnreadableRecord::Damaged)
    }

    /// The same record with the values that were left out; `None` for a client without a waiter, or
    /// a waiter without its client.
    fn counted(mut self) -> Option<Self> {
        for waiting in self.queue.values() {
            self.clients.get_mut(&waiting.id.client)?.waiting += 1;
        }
        let is_sound = self.clients.values().all(|seen| seen.waiting > 0);
        is_sound.then(|| self.indexed())
    }
}

/// A value that is a part of a record.
trait Encoded: Sized {
    /// Appends the bytes of the value.
    fn write(&self, to: &mut Vec<u8>);

    /// Takes the value's bytes from the front; `None` if they are malformed.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

/// Writes and reads fields in this order. All fields are named, so that a new one cannot be
/// forgotten. The fields after `without` are computed from the rest, and begin with their defaults.
macro_rules! rows {
    ($(
        $row:ident { $($field:ident $(as $kind:ident)?),+ } $(without $($derived:ident),+)?;
    )+) => {$(
        impl Encoded for $row {
            fn write(&self, to: &mut Vec<u8>) {
                let Self { $($field,)+ $($($derived: _,)+)? } = self;
                $($(let $field = &$kind(*$field);)? $field.write(to);)+
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                $(let $field = Encoded::read(from)?; $(let $kind($field) = $field;)?)+
                Some(Self { $($field,)+ $($($derived: Default::default(),)+)? })
            }
        }
    )+};
}

rows! {
    Record {
        capacity, last_token_us, last_sequence, sweep, collect_at_us, holds,
        clients, queue, tombstones, last
    } without used, slots, sequences;
    Sweep { cursor, bound_us, running_us, longest_ttl_us };
    Hold {
        id, state, weight, token_us, since_us, deadline_us, ttl_us, nonce as Random, info
    };
    Waiting { id, weight, capacity, ttl_us, since_us, nonce as Random, info };
    Seen { last_us } without waiting;
    Tombstone { client, attempt, until_us, revoked };
    LastHold { id, ended_us, info };
    HolderId { client, attempt };
    PassedOn { times, after };
}

/// Random numbers of all magnitudes.
struct Random(u64);

impl Encoded for Random {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.0.to_le_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        array(from).map(u64::from_le_bytes).map(Self)
    }
}

impl Encoded for ClientId {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.0.to_le_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        array(from).map(u128::from_le_bytes).map(Self)
    }
}

impl Encoded for u64 {
    fn write(&self, to: &mut Vec<u8>) {
        let mut number = *self;
        while number > 0x7f {
            to.push(number as u8 | 0x80);
            number >>= 7;
        }
        to.push(number as u8);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let mut number = 0;
        for shift in (0..Self::BITS).step_by(7) {
            let byte = byte(from)?;
            let bits = Self::from(byte & 0x7f);
            number |= bits << shift;
            if byte <= 0x7f {
                return (bits << shift >> shift == bits).then_some(number);
            }
        }
        None
    }
}

/// Numbers of small types, which are written as larger ones. A number that does not fit is refused.
macro_rules! small {
    ($($small:ty),+) => {$(
        impl Encoded for $small {
            fn write(&self, to: &mut Vec<u8>) {
                (*self as u64).write(to);
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                u64::read(from)?.try_into().ok()
            }
        }
    )+};
}

small!(u16, u32, usize);

/// Values that are written as numbers.
macro_rules! numbered {
    ($($kind:ty),+) => {$(
        impl Encoded for $kind {
            fn write(&self, to: &mut Vec<u8>) {
                let place = Self::BY_NUMBER.iter().position(|known| known == self);
                to.push(place.unwrap_or_default() as u8);
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                Self::BY_NUMBER.get(usize::from(byte(from)?)).copied()
            }
        }
    )+};
}

numbered!(HoldState);

impl Encoded for bool {
    fn write(&self, to: &mut Vec<u8>) {
        to.push((*self).into());
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let byte = byte(from)?;
        (byte <= 1).then_some(byte == 1)
    }
}

impl Encoded for Duration {
    fn write(&self, to: &mut Vec<u8>) {
        micros(*self).write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        u64::read(from).map(Self::from_micros)
    }
}

impl Encoded for String {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        to.extend(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let length = usize::read(from)?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        str::from_utf8(text).ok().map(str::to_owned)
    }
}

impl<T: Encoded> Encoded for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.is_some().write(to);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        match bool::read(from)? {
            true => T::read(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Encoded> Encoded for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        (0..u64::read(from)?).map(|_| T::read(from)).collect()
    }
}

impl<K: Encoded + Ord, V: Encoded> Encoded for BTreeMap<K, V> {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        for (key, value) in self {
            key.write(to);
            value.write(to);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        (0..u64::read(from)?).map(|_| Some((K::read(from)?, V::read(from)?))).collect()
    }
}

impl Encoded for HolderInfo {
    fn write(&self, to: &mut Vec<u8>) {
        let passed_on = self.passed_on();
        let bit = |bit, is_there| if is_there { bit } else { 0 };
        let what_follows = bit(LABEL, self.label.is_some()) | bit(PASSED_ON, passed_on.times > 0);
        self.host.write(to);
        self.pid.write(to);
        to.push(what_follows);
        self.label.iter().for_each(|label| label.write(to));
        if passed_on.times > 0 {
            passed_on.write(to);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let (host, pid, what_follows) = (String::read(from)?, u32::read(from)?, byte(from)?);
        let has = |bit| what_follows & bit != 0;
        let label = if has(LABEL) { Some(String::read(from)?) } else { None };
        let passed_on = if has(PASSED_ON) { PassedOn::read(from)? } else { PassedOn::default() };
        let info = Self::new(host, pid).with_label(label).with_passed_on(passed_on);
        (what_follows <= LABEL | PASSED_ON).then_some(info)
    }
}

fn array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    array(from).map(|[byte]| byte)
}
