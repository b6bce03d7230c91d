//! The rows of a record as bytes.
//!
//! Numbers have a fixed width, little end first; a list begins with its length. As JSON, a record
//! with 100 waiters took three quarters of the time of an operation.

use std::time::Duration;

use leasehold_core::model::{Bounds, Hold, LastHold, Seen, Tombstone, Waiting};
use leasehold_core::time::micros;
use leasehold_core::{ClientId, Ending, HoldState, HolderId, HolderInfo, PassedOn};

/// The highest bit of a tombstone's time, which no time has: an operator has ended that attempt's
/// hold at once.
const REVOKED: u64 = 1 << 63;

/// The key of a row: big end first, so that bytes have the order of the keys.
pub(super) trait Key: Ord + Copy {
    fn bytes(&self) -> Vec<u8>;
    fn unpack(from: &mut Reader<'_>) -> Option<Self>;
}

impl Key for u32 {
    fn bytes(&self) -> Vec<u8> {
        self.to_be_bytes().into()
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.array().map(Self::from_be_bytes)
    }
}

impl Key for u64 {
    fn bytes(&self) -> Vec<u8> {
        self.to_be_bytes().into()
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.array().map(Self::from_be_bytes)
    }
}

impl Key for ClientId {
    fn bytes(&self) -> Vec<u8> {
        self.0.to_be_bytes().into()
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.array().map(u128::from_be_bytes).map(Self)
    }
}

impl Key for HolderId {
    fn bytes(&self) -> Vec<u8> {
        [self.client.bytes(), self.attempt.bytes()].concat()
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { client: ClientId::unpack(from)?, attempt: Key::unpack(from)? })
    }
}

/// What a row says of its key.
pub(super) trait Packed<K>: Sized {
    fn pack(&self, to: &mut Writer);
    fn unpack(from: &mut Reader<'_>) -> Option<Self>;

    /// Whether steps can have made it.
    fn is_sound(&self, key: K, bounds: &Bounds) -> bool;
}

impl Packed<u32> for Hold {
    fn pack(&self, to: &mut Writer) {
        to.hold(self);
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.hold()
    }

    fn is_sound(&self, slot: u32, bounds: &Bounds) -> bool {
        bounds.admit_hold(slot, self)
    }
}

impl Packed<u64> for Waiting {
    fn pack(&self, to: &mut Writer) {
        to.waiting(self);
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.waiting()
    }

    fn is_sound(&self, sequence: u64, bounds: &Bounds) -> bool {
        bounds.admit_sequence(sequence) && bounds.admit_waiting(self)
    }
}

impl Packed<ClientId> for Seen {
    fn pack(&self, to: &mut Writer) {
        to.u64(self.last_us);
        to.u32(self.waiting);
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { last_us: from.u64()?, waiting: from.u32()? })
    }

    fn is_sound(&self, _: ClientId, bounds: &Bounds) -> bool {
        bounds.admit_seen(self)
    }
}

/// The slot of an attempt's hold.
impl Packed<HolderId> for u32 {
    fn pack(&self, to: &mut Writer) {
        to.u32(*self);
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.u32()
    }

    fn is_sound(&self, _: HolderId, _: &Bounds) -> bool {
        true
    }
}

/// The number of an attempt that waits.
impl Packed<HolderId> for u64 {
    fn pack(&self, to: &mut Writer) {
        to.u64(*self);
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.u64()
    }

    fn is_sound(&self, _: HolderId, bounds: &Bounds) -> bool {
        bounds.admit_sequence(*self)
    }
}

/// Stands for a hold that cannot be read.
pub(super) fn blank_hold() -> Hold {
    Hold {
        id: HolderId { client: ClientId(0), attempt: 0 },
        weight: 0,
        state: HoldState::Cooldown,
        token_us: 0,
        since_us: 0,
        deadline_us: 0,
        ttl_us: 0,
        change: 0,
        nonce: 0,
        info: HolderInfo::default(),
    }
}

/// How a hold ended, as a number in a record.
const ENDINGS: [Ending; 6] = [
    Ending::Released,
    Ending::Expired,
    Ending::Revoked,
    Ending::Unclaimed,
    Ending::Adopted,
    Ending::Died,
];

/// Bytes that are being written.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn client(&mut self, client: ClientId) {
        self.0.extend_from_slice(&client.0.to_le_bytes());
    }

    pub(super) fn id(&mut self, id: &HolderId) {
        self.client(id.client);
        self.u64(id.attempt);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn info(&mut self, info: &HolderInfo) {
        self.text(&info.host);
        self.u32(info.pid);
        let acts_for_others = !info.on_behalf_of().is_empty();
        let PassedOn { times, after } = info.passed_on();
        let what_follows = u32::from(info.label.is_some()) | u32::from(acts_for_others) << 1;
        self.u32(what_follows | u32::from(times > 0) << 2);
        info.label.iter().for_each(|label| self.text(label));
        if acts_for_others {
            self.list(info.on_behalf_of().iter(), |to, client| to.client(*client));
        }
        if times > 0 {
            self.u32(times.into());
            self.u64(micros(after));
        }
    }

    pub(super) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.u32(items.len() as u32);
        items.for_each(|item| each(self, item));
    }

    pub(super) fn tombstone(&mut self, tombstone: &Tombstone) {
        let Tombstone { client, attempt, until_us, revoked } = tombstone;
        self.client(*client);
        self.u64(*attempt);
        self.u64(until_us | if *revoked { REVOKED } else { 0 });
    }

    pub(super) fn hold(&mut self, hold: &Hold) {
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
        self.id(id);
        self.u32(*weight);
        self.u32(match state {
            HoldState::Cooldown => 1,
            HoldState::Revoked => 2,
            HoldState::Unclaimed => 3,
            _ => 0, // claimed
        });
        for number in [token_us, since_us, deadline_us, ttl_us, change, nonce] {
            self.u64(*number);
        }
        self.info(info);
    }

    pub(super) fn last_hold(&mut self, last: &LastHold) {
        let LastHold { id, weight, capacity, token_us, since_us, ended_us, ending, info } = last;
        self.id(id);
        self.u32(*weight);
        self.u32(*capacity);
        for number in [token_us, since_us, ended_us] {
            self.u64(*number);
        }
        self.u32(ENDINGS.iter().position(|known| known == ending).unwrap_or_default() as u32);
        self.info(info);
    }

    pub(super) fn waiting(&mut self, waiting: &Waiting) {
        let Waiting { id, weight, capacity, ttl_us, since_us, nonce, info } = waiting;
        self.id(id);
        self.u32(*weight);
        self.u32(*capacity);
        for number in [ttl_us, since_us, nonce] {
            self.u64(*number);
        }
        self.info(info);
    }
}

/// Reads what is left; `None` when that is not what it should be.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads bytes to their end.
    pub(super) fn whole<T>(
        bytes: &'a [u8],
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let mut reader = Self(bytes);
        read(&mut reader).filter(|_| reader.0.is_empty())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn client(&mut self) -> Option<ClientId> {
        self.array().map(u128::from_le_bytes).map(ClientId)
    }

    pub(super) fn id(&mut self) -> Option<HolderId> {
        Some(HolderId { client: self.client()?, attempt: self.u64()? })
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    pub(super) fn info(&mut self) -> Option<HolderInfo> {
        let (host, pid) = (self.text()?, self.u32()?);
        let what_follows = self.u32()?;
        let label = if what_follows & 1 == 1 { Some(self.text()?) } else { None };
        let on_behalf_of =
            if what_follows & 2 == 2 { self.list(Self::client)? } else { Vec::new() };
        let passed_on = match what_follows {
            0..=3 => PassedOn::default(),
            4..=7 => {
                let times = u16::try_from(self.u32()?).ok()?;
                PassedOn { times, after: Duration::from_micros(self.u64()?) }
            }
            _ => return None,
        };
        let info = HolderInfo::new(host, pid).with_label(label);
        Some(info.with_on_behalf_of(on_behalf_of).with_passed_on(passed_on))
    }

    pub(super) fn list<T, L: FromIterator<T>>(
        &mut self,
        each: fn(&mut Self) -> Option<T>,
    ) -> Option<L> {
        (0..self.u32()?).map(|_| each(self)).collect()
    }

    pub(super) fn option<T>(&mut self, each: fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.u32()? {
            0 => Some(None),
            1 => each(self).map(Some),
            _ => None,
        }
    }

    pub(super) fn tombstone(&mut self) -> Option<Tombstone> {
        let (client, attempt, until_us) = (self.client()?, self.u64()?, self.u64()?);
        let revoked = until_us & REVOKED != 0;
        Some(Tombstone { client, attempt, until_us: until_us & !REVOKED, revoked })
    }

    pub(super) fn hold(&mut self) -> Option<Hold> {
        Some(Hold {
            id: self.id()?,
            weight: self.u32()?,
            state: match self.u32()? {
                0 => HoldState::Claimed,
                1 => HoldState::Cooldown,
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
            info: self.info()?,
        })
    }

    pub(super) fn last_hold(&mut self) -> Option<LastHold> {
        Some(LastHold {
            id: self.id()?,
            weight: self.u32()?,
            capacity: self.u32()?,
            token_us: self.u64()?,
            since_us: self.u64()?,
            ended_us: self.u64()?,
            ending: *ENDINGS.get(self.u32()? as usize)?,
            info: self.info()?,
        })
    }

    pub(super) fn waiting(&mut self) -> Option<Waiting> {
        Some(Waiting {
            id: self.id()?,
            weight: self.u32()?,
            capacity: self.u32()?,
            ttl_us: self.u64()?,
            since_us: self.u64()?,
            nonce: self.u64()?,
            info: self.info()?,
        })
    }
}
