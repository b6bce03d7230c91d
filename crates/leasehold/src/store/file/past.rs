//! The holds of a name that have ended: a row beside that of its record, read and written only by
//! those who keep a history or look at one. So others leave it as it is, and so do releases that
//! know of none.

use leasehold_core::Ending;
use leasehold_core::model::{MAX_HISTORY, PastHold, PastHolds};

use super::codec::{Reader, Writer};
use super::rows::Source;

/// What the row is marked with.
const PAST: u8 = 6;

const READ: &str = "SELECT value FROM lock_row WHERE name = ?1 AND kind = ?2 AND key = x''";
const WRITE: &str = "INSERT OR REPLACE INTO lock_row VALUES (?1, ?2, x'', ?3)";

/// The past holds of one record.
pub(super) struct PastRow<'a> {
    source: &'a Source<'a>,
    /// None before they were asked for.
    known: Option<Vec<PastHold>>,
    is_changed: bool,
}

impl<'a> PastRow<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        Self { source, known: None, is_changed: false }
    }

    /// Writes the row if it has changed.
    pub(super) fn write(&self) {
        let Some(known) = self.known.as_ref().filter(|_| self.is_changed) else { return };
        let mut to = Writer::default();
        to.list(known.iter(), Writer::past_hold);
        self.source.run(WRITE, (self.source.name(), PAST, to.0));
    }

    fn known(&mut self) -> &mut Vec<PastHold> {
        let source = self.source;
        self.known.get_or_insert_with(|| read(source))
    }
}

impl PastHolds for PastRow<'_> {
    fn push(&mut self, past: PastHold, most: u32) {
        self.is_changed = true;
        PastHolds::push(self.known(), past, most);
    }

    fn all(&mut self) -> &[PastHold] {
        self.known()
    }
}

fn read(source: &Source<'_>) -> Vec<PastHold> {
    let Some(bytes) = source.value(READ, (source.name(), PAST)) else { return Vec::new() };
    let past = Reader::whole(&bytes, |from| from.list(Reader::past_hold));
    let is_sound = |past: &Vec<PastHold>| {
        past.len() <= MAX_HISTORY as usize && past.iter().all(PastHold::is_sound)
    };
    past.filter(is_sound).unwrap_or_else(|| {
        source.fail(source.damaged());
        Vec::new()
    })
}

/// How a hold ended, as a number in a row.
const ENDINGS: [Ending; 6] = [
    Ending::Released,
    Ending::Expired,
    Ending::Revoked,
    Ending::Unclaimed,
    Ending::Adopted,
    Ending::Died,
];

impl Writer {
    fn past_hold(&mut self, past: &PastHold) {
        let PastHold { id, weight, capacity, token_us, since_us, ended_us, ending, info } = past;
        self.id(id);
        self.u32(*weight);
        self.u32(*capacity);
        for number in [token_us, since_us, ended_us] {
            self.u64(*number);
        }
        self.u32(ENDINGS.iter().position(|known| known == ending).unwrap_or_default() as u32);
        self.info(info);
    }
}

impl Reader<'_> {
    fn past_hold(&mut self) -> Option<PastHold> {
        Some(PastHold {
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
}
