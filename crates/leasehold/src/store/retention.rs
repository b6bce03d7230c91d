//! How long a store is asked to keep the record of a name, as its URL says it.

use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::text::parse_duration;

/// From the time it takes to notice a lost reply to the longest lease.
const RETENTIONS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24));

/// Reads the value of the option `retention`.
pub(super) fn parse(value: &str) -> Result<Duration, InvalidInput> {
    parse_duration(value)
        .map_err(|refusal| refused(format!("`retention` in the store URL: {refusal}")))
}

/// Refuses what no store keeps to.
pub(super) fn check(span: Duration) -> Result<(), InvalidInput> {
    let (least, most) = RETENTIONS;
    if (least..=most).contains(&span) {
        return Ok(());
    }
    Err(refused(format!("`retention` is {span:?}: give {least:?} to {most:?}")))
}

fn refused(why: String) -> InvalidInput {
    InvalidInput::new("url", why)
}
