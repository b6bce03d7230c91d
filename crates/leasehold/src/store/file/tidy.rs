//! Tidying up: records whose time is over, and pipes of dead clients.

use leasehold_core::model::RETENTION;
use leasehold_core::{Addressed, ClientId, StoreError};

use super::reap::end_dead;
use super::transaction::FileTransaction;

/// The interval at which the files are tidied, by the process that comes first: 2 min.
pub(crate) const INTERVAL_US: u64 = RETENTION.as_micros() as u64;

/// The number of rows that one transaction reads: 256, so that tidying keeps others waiting hardly
/// longer than an ordinary request does.
const ROWS: usize = 256;

/// Whether tidying is due. If it is, this process has to do it, because the next time is set.
pub(crate) fn claim(transaction: &FileTransaction<'_>) -> Result<bool, StoreError> {
    let now_us = transaction.now.lease_us;
    // A time that is too far away was set before the last start of the machine, which has reset the
    // clock.
    let is_later = (now_us + 1..=now_us + INTERVAL_US).contains(&transaction.number("tidy_at_us")?);
    if !is_later {
        transaction.set_number("tidy_at_us", now_us + INTERVAL_US)?;
    }
    Ok(!is_later)
}

/// Drops records whose time is over, and keeps the highest of their tokens. Ends the leases and the
/// places of dead clients. Returns the name after which to continue, and the messages to send.
pub(crate) fn part(
    transaction: &FileTransaction<'_>,
    from: &str,
    dead: &[ClientId],
) -> Result<(Option<String>, Vec<Addressed>), StoreError> {
    let (now, mut rows) = (transaction.now, Vec::new());
    transaction.each_row(from, |name, record| {
        if name.as_str() != from {
            let times = record.map(|record| (record.collect_at_us, record.last_token_us));
            rows.push((name.clone(), times));
        }
        rows.len() < ROWS
    })?;
    let next = rows.last().filter(|_| rows.len() == ROWS).map(|(name, _)| name.as_str().to_owned());
    let (mut highest_us, mut messages) = (0, Vec::new());
    for (name, times) in rows {
        match times {
            // A damaged record is left as it is: a caller that asks for its name gets the error.
            None => {}
            Some((collect_at_us, last_token_us)) if collect_at_us <= now.lease_us => {
                // Otherwise a name that is used again could get a lower token than before, if the
                // wall clock was set back meanwhile.
                highest_us = highest_us.max(last_token_us);
                transaction.remove(&name)?;
            }
            Some(_) if dead.is_empty() => {}
            Some(_) => messages
                .extend(transaction.edit(&name, |record, _| Ok(end_dead(record, now, dead)))?),
        }
    }
    if highest_us > transaction.number("highest_token_us")? {
        transaction.set_number("highest_token_us", highest_us)?;
    }
    Ok((next, messages))
}
