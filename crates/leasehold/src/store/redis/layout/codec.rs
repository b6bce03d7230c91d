//! Values packed together as Lua's `struct` does it: numbers are little-endian doubles, which hold
//! a whole number exactly below 2⁵³, or integers with the number of bytes in parentheses.

use std::time::Duration;

use leasehold_core::model::LastHold;
use leasehold_core::time::micros;
use leasehold_core::{ClientId, FencingToken, HoldState, HolderId, HolderInfo, PassedOn};

/// The largest number that a script accepts: 2⁵³ − 1.
pub(crate) const MAX_EXACT: u64 = (1 << 53) - 1;

/// The version of a record: the first byte of its state. A record of another version is left
/// unchanged.
pub const RECORD_VERSION: u8 = 5;

/// Packs values for a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// A writer with room for an ordinary acquire: 160 bytes, so that memory is allocated only
    /// once.
    pub(crate) fn roomy() -> Self {
        Self(Vec::with_capacity(160))
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn byte(self, byte: u8) -> Self {
        self.bytes(&[byte])
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.byte(u8::from(flag))
    }

    pub(crate) fn word(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Writes a time or a count. A number that is too large for a script is reduced to the largest
    /// that it accepts; no real time is later than that.
    pub(crate) fn number(self, number: u64) -> Self {
        self.bytes(&(number.min(MAX_EXACT) as f64).to_le_bytes())
    }

    pub(crate) fn span(self, span: Duration) -> Self {
        self.number(micros(span))
    }

    pub(crate) fn id(self, id: HolderId) -> Self {
        self.bytes(&id.client.0.to_be_bytes()).number(id.attempt)
    }

    /// Writes the process, the number of hand-overs inside it (which scripts compare), the host and
    /// the label.
    pub(crate) fn info(self, info: &HolderInfo) -> Self {
        let host = info.host.as_bytes();
        let length = u16::try_from(host.len()).unwrap_or(u16::MAX);
        let PassedOn { times, after } = info.passed_on();
        let mut whole = self.word(info.pid).bytes(&times.to_le_bytes());
        if times > 0 {
            whole = whole.span(after);
        }
        whole = whole.bytes(&length.to_le_bytes()).bytes(&host[..usize::from(length)]);
        match &info.label {
            Some(label) => whole.byte(b'=').bytes(label.as_bytes()),
            None => whole,
        }
    }
}

/// The unread rest of a packed value. Every method returns `None` if the next bytes are not of its
/// kind.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    pub fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// An integer of 4 bytes.
    pub fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// A double that is a whole number and held exactly.
    pub fn number(&mut self) -> Option<u64> {
        let number = f64::from_le_bytes(self.take()?);
        let is_exact = (0.0..=MAX_EXACT as f64).contains(&number) && number.fract() == 0.0;
        is_exact.then_some(number as u64)
    }

    /// An integer of 7 bytes that a script accepts: a time.
    pub fn time(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes[..7].copy_from_slice(&self.take::<7>()?);
        Some(u64::from_le_bytes(bytes)).filter(|number| *number <= MAX_EXACT)
    }

    /// A span in microseconds.
    pub fn span(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_micros)
    }

    /// The time of a token.
    pub fn token(&mut self) -> Option<FencingToken> {
        self.number().map(FencingToken::from_micros)
    }

    /// An attempt's secret.
    pub fn nonce(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A client.
    pub fn client(&mut self) -> Option<ClientId> {
        self.take().map(|bytes| ClientId(u128::from_be_bytes(bytes)))
    }

    /// An attempt.
    pub fn id(&mut self) -> Option<HolderId> {
        Some(HolderId { client: self.client()?, attempt: self.number()? })
    }

    /// The state of a hold.
    pub fn hold_state(&mut self) -> Option<HoldState> {
        HoldState::BY_NUMBER.get(usize::from(self.byte()?)).copied()
    }

    /// The hold that was released last, which is the rest of the bytes.
    pub fn last_hold(mut self) -> Option<LastHold> {
        Some(LastHold { ended_us: self.time()?, id: self.id()?, info: self.info()? })
    }

    /// A value whose length comes first, in 2 bytes.
    pub fn counted(&mut self) -> Option<Reader<'a>> {
        let length = u16::from_le_bytes(self.take()?);
        let (value, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(Self(value))
    }

    /// The facts about a holder, which are the rest of the bytes.
    pub fn info(mut self) -> Option<HolderInfo> {
        let (pid, times) = (self.word()?, u16::from_le_bytes(self.take()?));
        let after = if times > 0 { self.span()? } else { Duration::ZERO };
        let host = self.counted()?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let label = match self.0.split_first() {
            None => None,
            Some((b'=', label)) => Some(text(label)?),
            Some(_) => return None,
        };
        let info = HolderInfo::new(text(host.0)?, pid).with_label(label);
        let passed_on = PassedOn { times, after };
        Some(info.with_passed_on(passed_on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_survives_its_bytes() {
        for attempt in [0, 1, 255, 1 << 52, MAX_EXACT] {
            for client in [0, 1, u128::MAX] {
                let id = HolderId { client: ClientId(client), attempt };
                assert_eq!(Reader(&Writer::default().id(id).0).id(), Some(id));
            }
        }
        assert_eq!(Reader(&[0; 23]).id(), None);
        assert_eq!(Reader(&[0xff; 24]).id(), None, "no number");
    }

    #[test]
    fn facts_survive_their_bytes() {
        let hosts = [String::new(), "db-7".to_owned(), "ü".repeat(500)];
        for host in hosts {
            for label in [None, Some(String::new()), Some("nightly = import".to_owned())] {
                let asked = HolderInfo::new(host.clone(), u32::MAX).with_label(label.clone());
                let after = Duration::from_micros(1_250);
                for times in [0, 1, 4_095] {
                    let asked = asked.clone().with_passed_on(PassedOn { times, after });
                    assert_eq!(Reader(&Writer::default().info(&asked).0).info(), Some(asked));
                }
            }
        }
        for damaged in [
            &b""[..],
            b"\x01\0\0\0\0\0\0",
            b"\x01\0\0\0\x01\0half",
            b"\x01\0\0\0\0\0\x02\0x",
            b"\x01\0\0\0\0\0\0\0?",
        ] {
            assert_eq!(Reader(damaged).info(), None, "{damaged:?}");
        }
    }

    #[test]
    fn only_a_whole_number_that_is_exact_is_taken() {
        let read = |number: f64| Reader(&number.to_le_bytes()).number();
        assert_eq!(read(0.0), Some(0));
        assert_eq!(read(MAX_EXACT as f64), Some(MAX_EXACT));
        for wrong in [-1.0, 0.5, 1e16, f64::NAN, f64::INFINITY] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_cut_and_not_wrapped() {
        let written = Writer::default().number(u64::MAX).span(Duration::MAX);
        let mut reader = Reader(&written.0);
        assert_eq!((reader.number(), reader.number()), (Some(MAX_EXACT), Some(MAX_EXACT)));
    }
}
