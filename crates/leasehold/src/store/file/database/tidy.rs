//! Tidying up: records whose time is over, and pipes of the dead.

use leasehold_core::model::{self, Record, Rules};
use leasehold_core::{Addressed, ClientId, Now, StoreError};

use super::transaction::{Row, Writing};
use crate::store::file::options::RULES;

/// How often the files are tidied by whichever process comes first: every 2 min, whatever retention
/// it was asked for.
pub(crate) const INTERVAL_US: u64 = RULES.retention.as_micros() as u64;

/// Rows looked at in one transaction: 256, so that nobody waits much longer than for a step.
const ROWS: u32 = 256;

/// When it is time next, by the lease clock. A time too far away is from before the machine was
/// started.
pub(crate) fn next_us(writing: &Writing<'_>, now: Now) -> Result<u64, StoreError> {
    let next_us = writing.number("tidy_at_us")?;
    Ok(if next_us <= now.lease_us + INTERVAL_US { next_us } else { 0 })
}

/// Whether it is time, and this process's to do.
pub(crate) fn claim(writing: &Writing<'_>, now: Now) -> Result<bool, StoreError> {
    if now.lease_us < next_us(writing, now)? {
        return Ok(false);
    }
    writing.set_number("tidy_at_us", now.lease_us + INTERVAL_US)?;
    Ok(true)
}

/// Drops records whose time is over and keeps the highest of their tokens; ends what the dead
/// hold and where they wait. Says from which name on to continue, and whom to tell what.
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
        // A damaged one is left as it is: a caller that asks for its name gets the error.
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

/// Ends what the dead hold under one name and where they wait.
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
