//! What a record says, in words: the values that a Redis store keeps, and the rows of other stores.
//!
//! | word | is |
//! |---|---|
//! | ATTEMPT | the id of the attempt: 32 hex digits of its client, a dash, a number |
//! | WHAT | `*` for the exclusive mode, or WEIGHT`/`CAPACITY |
//! | FACTS | HOST PID, and the label if there is one; empty if nothing is known |
//! | REQUEST | ATTEMPT WHAT FACTS |
//! | TOKEN | microseconds since 1970; after passes within a client `+`TIMES`+`MICROSECONDS |
//! | HOLD | ATTEMPT, and TOKEN FACTS once the holder has told them |
//!
//! | a gate says | meaning |
//! |---|---|
//! | `h` HOLD | held, and nobody waits |
//! | `w` HOLD | held, and somebody may wait |
//! | `r` HOLD | held, and revoked by an operator |
//! | `s` USED CAPACITY | shared |
//! | `k` FREE \[REQUEST] | nobody's until FREE (ms), by the `min_hold` of this request |
//! | `x` | free, but not for the attempts that have ended |
//!
//! The last run that has succeeded is BEGAN (ms), ENDED (ms), its token, and REQUEST.

use std::fmt::{self, Write};
use std::time::Duration;

use super::record::{Gate, Hold, Last, Record, Share, State, Waiter};
use crate::holder::{HolderId, HolderInfo, Mode, PassedOn};
use crate::request::{Description, Refusal, Request};
use crate::time::micros;

/// The version of the rows that this release writes.
const VERSION: u32 = 1;

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnreadableRecord {
    /// Its text is not one of ours.
    #[error("the record is damaged")]
    Damaged,
    /// Another release wrote it, in this version.
    #[error("the record has version {0}: use one release of leasehold everywhere")]
    Version(u32),
}

impl UnreadableRecord {
    /// The reply to a request for this record.
    pub const fn refusal(self) -> Refusal {
        match self {
            Self::Damaged => Refusal::Damaged,
            Self::Version(found) => Refusal::Version { found },
        }
    }
}

/// A text that this function writes. Such a function fails only if the text takes nothing.
fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    // Room for most texts, so that they are not moved while they grow.
    let mut text = String::with_capacity(96);
    let _ = write(&mut text);
    text
}

/// Writes the facts about a holder or a waiter after a space, if anything is known.
fn write_facts(to: &mut impl Write, info: &HolderInfo) -> fmt::Result {
    let HolderInfo { host, pid, label, .. } = info;
    if host.is_empty() && *pid == 0 && label.is_none() {
        return Ok(());
    }
    let host = match &**host {
        "" => "%-",
        odd if odd.contains([' ', '%']) => &odd.replace('%', "%5").replace(' ', "%0"),
        plain => plain,
    };
    let mut buffer = itoa::Buffer::new();
    [" ", host, " ", buffer.format(*pid)].into_iter().try_for_each(|part| to.write_str(part))?;
    label.iter().try_for_each(|label| write!(to, " {label}"))
}

/// Writes an id. Formatting would take longer, and each request has an id.
fn write_id(to: &mut impl Write, HolderId { client, attempt }: HolderId) -> fmt::Result {
    let digit = |half: u8| half + if half < 10 { b'0' } else { b'a' - 10 };
    let digits = client.0.to_be_bytes().map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    to.write_str(str::from_utf8(digits.as_flattened()).unwrap_or_default())?;
    to.write_char('-')?;
    to.write_str(itoa::Buffer::new().format(attempt))
}

/// Reads the facts about a holder or a waiter.
pub fn read_facts(text: &str) -> Option<HolderInfo> {
    if text.is_empty() {
        return Some(HolderInfo::default());
    }
    let (host, rest) = text.split_once(' ')?;
    let (pid, label) =
        rest.split_once(' ').map_or((rest, None), |(pid, label)| (pid, Some(label.to_owned())));
    let host = host.replace("%-", "").replace("%0", " ").replace("%5", "%");
    Some(HolderInfo::new(host, pid.parse().ok()?).with_label(label))
}

/// The rest of a text after its first word.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// What a store must know of an attempt that waits, or shares.
pub fn request(asked: &Request) -> String {
    written(|text| write_request(text, asked))
}

/// Writes what a store must know of an attempt that waits, or shares.
///
/// # Errors
///
/// Those of `to`.
pub fn write_request(to: &mut impl Write, Request { id, mode, info }: &Request) -> fmt::Result {
    let (weight, capacity) = (mode.weight(), mode.capacity());
    write_id(to, *id)?;
    match mode {
        Mode::Exclusive => to.write_str(" *")?,
        Mode::Permits { .. } | Mode::Shared => write!(to, " {weight}/{capacity}")?,
    }
    write_facts(to, info)
}

/// Reads a request.
pub fn read_request(text: &str) -> Option<Request> {
    let (id, rest) = word(text);
    let (what, facts) = word(rest);
    let mode = match what.split_once('/') {
        None => (what == "*").then_some(Mode::Exclusive)?,
        Some((weight, capacity)) => Mode::of(weight.parse().ok()?, capacity.parse().ok()?),
    };
    Some(Request::new(id.parse().ok()?, mode, read_facts(facts)?))
}

/// The token and the facts of a hold, once they are known.
type Known<'a> = Option<(u64, &'a HolderInfo)>;

/// Writes what a gate in `state` says of a hold: its attempt, and what is known of it.
fn write_hold(to: &mut impl Write, state: &str, id: HolderId, known: Known<'_>) -> fmt::Result {
    to.write_str(state)?;
    write_id(to, id)?;
    let Some((token, info)) = known else { return Ok(()) };
    to.write_char(' ')?;
    write_known(to, token, info)
}

/// Writes what a gate says behind the attempt, once this is known.
///
/// # Errors
///
/// Those of `to`.
pub fn write_known(to: &mut impl Write, token: u64, info: &HolderInfo) -> fmt::Result {
    write!(to, "{token}")?;
    if let Some(PassedOn { times, after }) = info.passed_on.as_deref() {
        write!(to, "+{times}+{}", micros(*after))?;
    }
    write_facts(to, info)
}

fn read_hold(text: &str) -> Option<Hold> {
    let (id, rest) = word(text);
    let id = id.parse().ok()?;
    if rest.is_empty() {
        return Some(Hold { id, token: None, info: HolderInfo::default() });
    }
    let (token, facts) = word(rest);
    let mut parts = token.splitn(3, '+');
    let token = parts.next()?.parse().ok()?;
    let passed_on = match parts.next() {
        None => PassedOn::default(),
        Some(times) => {
            let after = Duration::from_micros(parts.next()?.parse().ok()?);
            PassedOn { times: times.parse().ok()?, after }
        }
    };
    let info = read_facts(facts)?.with_passed_on(passed_on);
    Some(Hold { id, token: Some(token), info })
}

/// Writes what a gate says while this attempt holds and nobody waits.
///
/// # Errors
///
/// Those of `to`.
pub fn write_held(to: &mut impl Write, id: HolderId, known: Option<&Description>) -> fmt::Result {
    write_hold(to, "h ", id, known.map(|known| (known.token.micros(), &*known.info)))
}

/// What is kept of the last run that has succeeded, but for when it is forgotten.
pub fn last(Last { request: asked, token, began_ms, ended_ms, .. }: &Last) -> String {
    format!("{began_ms} {ended_ms} {token} {}", request(asked))
}

/// Reads what is kept of the last run, until `until_ms`.
pub fn read_last(text: &str, until_ms: u64) -> Option<Last> {
    let mut words = text.splitn(4, ' ');
    let mut number = || words.next()?.parse().ok();
    let (began_ms, ended_ms, token) = (number()?, number()?, number()?);
    Some(Last { request: read_request(words.next()?)?, token, began_ms, ended_ms, until_ms })
}

/// What a gate says. `used` is how much of the capacity is taken, if it is shared.
pub fn gate(state: &State, used: u32) -> String {
    let of = |state, Hold { id, token, info }: &Hold| {
        written(|text| write_hold(text, state, *id, token.map(|it| (it, info))))
    };
    match state {
        State::Awaited(holder) => of("w ", holder),
        State::Closed => "x".to_owned(),
        State::Cooling { until_ms, by } => {
            let by = by.as_ref().map(|by| format!(" {}", request(by)));
            format!("k {until_ms}{}", by.unwrap_or_default())
        }
        State::Held(holder) => of("h ", holder),
        State::Revoked(holder) => of("r ", holder),
        State::Shared { capacity } => format!("s {used} {capacity}"),
    }
}

/// Reads what a gate says.
pub fn read_gate(text: &str) -> Option<State> {
    let (state, rest) = word(text);
    Some(match state {
        "h" => State::Held(read_hold(rest)?),
        "k" => {
            let (until, by) = word(rest);
            let by = if by.is_empty() { None } else { Some(read_request(by)?) };
            State::Cooling { until_ms: until.parse().ok()?, by }
        }
        "r" => State::Revoked(read_hold(rest)?),
        "s" => State::Shared { capacity: rest.split_once(' ')?.1.parse().ok()? },
        "w" => State::Awaited(read_hold(rest)?),
        "x" if rest.is_empty() => State::Closed,
        _ => return None,
    })
}

impl Record {
    /// The record as text, a line for each of its parts.
    pub fn to_text(&self) -> String {
        let mut text = VERSION.to_string();
        let mut line = |line: fmt::Arguments<'_>| text.write_fmt(line).unwrap_or_default();
        if let Some(Gate { state, until_ms }) = &self.gate {
            line(format_args!("\ngate {until_ms} {}", gate(state, self.used())));
        }
        let until_ms = self.queue_until_ms;
        for (place, Waiter { request: asked, asked_ms }) in &self.queue {
            line(format_args!("\nwaits {place} {until_ms} {asked_ms} {}", request(asked)));
        }
        for Share { request: granted, token, deadline_ms } in self.shares.values() {
            line(format_args!("\nshares {deadline_ms} {token} {}", request(granted)));
        }
        for id in &self.closed {
            line(format_args!("\nclosed {} {id}", self.closed_until_ms));
        }
        if let Some(run) = &self.last {
            line(format_args!("\nlast {} {}", run.until_ms, last(run)));
        }
        text
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`UnreadableRecord`] for a text that this release has not written.
    pub fn from_text(text: &str) -> Result<Self, UnreadableRecord> {
        let mut lines = text.split('\n');
        let version = lines.next().and_then(|version| version.parse().ok());
        match version.ok_or(UnreadableRecord::Damaged)? {
            VERSION => {}
            other => return Err(UnreadableRecord::Version(other)),
        }
        let mut record = Self::default();
        for line in lines {
            record.read_line(line).ok_or(UnreadableRecord::Damaged)?;
        }
        Ok(record)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let (part, rest) = word(line);
        let (first, rest) = word(rest);
        let first = first.parse().ok()?;
        match part {
            "gate" => self.gate = Some(Gate { state: read_gate(rest)?, until_ms: first }),
            "waits" => {
                let (until, rest) = word(rest);
                let (asked, rest) = word(rest);
                self.queue_until_ms = until.parse().ok()?;
                let (request, asked_ms) = (read_request(rest)?, asked.parse().ok()?);
                self.queue.insert(first, Waiter { request, asked_ms });
            }
            "shares" => {
                let (token, rest) = word(rest);
                let (request, token) = (read_request(rest)?, token.parse().ok()?);
                let share = Share { request, token, deadline_ms: first };
                self.shares.insert(share.request.id, share);
            }
            "closed" => {
                self.closed_until_ms = first;
                self.closed.push(rest.parse().ok()?);
            }
            "last" => self.last = Some(read_last(rest, first)?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::ClientId;

    fn id(attempt: u64) -> HolderId {
        HolderId { client: ClientId(7), attempt }
    }

    fn infos() -> Vec<HolderInfo> {
        let mut infos = vec![HolderInfo::default()];
        for host in ["", "db-7", "a b%c %0", "%-"] {
            for label in [None, Some(""), Some("nightly  import %5 ")] {
                infos.push(HolderInfo::new(host, 9).with_label(label.map(str::to_owned)));
            }
        }
        infos
    }

    #[test]
    fn facts_and_requests_survive_their_text() {
        for info in infos() {
            for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits { count: 2, capacity: 5 }] {
                let asked = Request::new(id(1), mode, info.clone());
                assert_eq!(read_request(&request(&asked)), Some(asked));
            }
        }
    }

    #[test]
    fn every_record_survives_its_text() {
        let after = Duration::from_micros(1_250);
        for info in infos() {
            let told = info.clone().with_passed_on(PassedOn { times: 3, after });
            let hold = Hold { id: id(1), token: Some(5), info: told };
            let fresh = Hold { id: id(1), token: None, info: HolderInfo::default() };
            let by = Request::new(id(2), Mode::Exclusive, info.clone());
            let states = [
                State::Awaited(hold.clone()),
                State::Closed,
                State::Cooling { until_ms: 3, by: None },
                State::Cooling { until_ms: 3, by: Some(by) },
                State::Held(fresh),
                State::Revoked(hold),
                State::Shared { capacity: 7 },
            ];
            for state in states {
                let gate = Some(Gate { state, until_ms: 9 });
                let mut record = Record { gate, ..Record::default() };
                let request = Request::new(id(3), Mode::Shared, info.clone());
                let waiter = Waiter { request: request.clone(), asked_ms: 8 };
                record.queue.insert(77, waiter);
                record.queue_until_ms = 10;
                record.shares.insert(id(3), Share { request, token: 6, deadline_ms: 12 });
                record.close(id(4), 60);
                let (began_ms, ended_ms, until_ms) = (1, 2, 3);
                let request = Request::new(id(5), Mode::Exclusive, info.clone());
                record.last = Some(Last { request, token: 8, began_ms, ended_ms, until_ms });
                assert_eq!(Record::from_text(&record.to_text()).as_ref(), Ok(&record));
            }
        }
        assert_eq!(Record::from_text(&Record::default().to_text()), Ok(Record::default()));
    }

    #[test]
    fn a_text_of_another_kind_is_no_record() {
        assert_eq!(Record::from_text("2\nanything"), Err(UnreadableRecord::Version(2)));
        let whole = format!("1\ngate 9 h {}", id(1));
        assert!(Record::from_text(&whole).is_ok());
        for damaged in ["", "x", "1\n", "1\ngate", "1\ngate 9", "1\ngate 9 q", "1\nwaits 1 2 3"] {
            assert_eq!(Record::from_text(damaged), Err(UnreadableRecord::Damaged), "{damaged:?}");
        }
        for end in 1..whole.len() - 1 {
            let cut = Record::from_text(&whole[..end]);
            assert!(cut.is_err() || end == 1, "{end}");
        }
    }
}
