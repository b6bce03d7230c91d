//! Tidying up: records whose time is over, and pipes of dead clients.

use leasehold_core::model::{self, RETENTION, Record, Rules};
use leasehold_core::{Addressed, ClientId, Now, StoreError};

use super::transaction::{Row, Writing};

/// The interval at which the files are tidied, by the process that comes first: 2 min.
pub(crate) const INTERVAL_US: u64 = RETENTION.as_micros() as u64;

/// The number of rows that one transaction reads: 256, so that tidying keeps others waiting hardly
/// longer than an ordinary request does.
const ROWS: u32 = 256;

/// The time of the next tidying, by the lease clock. Returns 0 for a time that is too far away:
/// such a time was set before the last start of the machine, which has reset the clock.
pub(crate) fn next_us(writing: &Writing<'_>, now: Now) -> Result<u64, StoreError> {
    let next_us = writing.number("tidy_at_us")?;
    Ok(if next_us <= now.lease_us + INTERVAL_US { next_us } else { 0 })
}

/// Whether tidying is due. If it is, this process has to do it, because the next time is set.
pub(crate) fn claim(writing: &Writing<'_>, now: Now) -> Result<bool, StoreError> {
    if now.lease_us < next_us(writing, now)? {
        return Ok(false);
    }
    writing.set_number("tidy_at_us", now.lease_us + INTERVAL_US)?;
    Ok(true)
}

/// Drops records whose time is over, and keeps the highest of their tokens. Ends the leases and the
/// places of dead clients. Returns the name after which to continue, and the messages to send.
pub(crate) fn part(
    writing: &Writing<'_>,
    now: Now,
    from: &str,
    dead: &[ClientId],
) -> Result<(Option<String>, Vec<Addressed>), StoreError> {
    let rows = writing.rows(from, ROWS)?;
    let next = rows.last().filter(|_| rows.len() == ROWS as usize);
    let next = next.map(|row| row.name.as_str().to_owned());
    let (mut highest_us, mut messages) = (0, Vec::new());
    for Row { name, times } in rows {
        // A damaged record is left as it is: a caller that asks for its name gets the error.
        let Some((collect_at_us, last_token_us)) = times else { continue };
        if collect_at_us <= now.lease_us {
            // Otherwise a name that is used again could get a lower token than before, if the wall
            // clock was set back meanwhile.
            highest_us = highest_us.max(last_token_us);
            writing.remove(&name)?;
        } else if !dead.is_empty() {
            messages.extend(
                writing.edit(&name, |record, _| Ok(end_dead(record, now, writing.rules, dead)))?,
            );
        }
    }
    if highest_us > writing.number("highest_token_us")? {
        writing.set_number("highest_token_us", highest_us)?;
    }
    Ok((next, messages))
}

/// Ends the leases and the places of dead clients under one name.
fn end_dead(record: &mut Record, now: Now, rules: Rules, dead: &[ClientId]) -> Vec<Addressed> {
    let mut messages = Vec::new();
    for &client in dead {
        let holds = record.holds.iter().any(|hold| hold.id.client == client);
        if holds || record.clients.contains_key(&client) {
            messages.extend(model::reap(record, now, rules, client).messages);
        }
    }
    messages
}
