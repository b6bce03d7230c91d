//! Spans among the options of a store: how a store URL says them, and their ranges.

use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::text::parse_duration;

/// The range of `retention`: from the time it takes to notice a lost reply to the longest lease.
pub(super) const RETENTIONS: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_hours(24));

/// Reads the value of an option.
pub(super) fn read(option: &str, value: &str) -> Result<Duration, InvalidInput> {
    parse_duration(value)
        .map_err(|refusal| refused(format!("`{option}` in the store URL: {refusal}")))
}

/// Refuses a span that is out of range.
pub(super) fn check(
    option: &str,
    span: impl Into<Option<Duration>>,
    (least, most): (Duration, Duration),
) -> Result<(), InvalidInput> {
    match span.into() {
        Some(span) if !(least..=most).contains(&span) => {
            Err(refused(format!("`{option}` is {span:?}: give {least:?} to {most:?}")))
        }
        Some(_) | None => Ok(()),
    }
}

fn refused(why: String) -> InvalidInput {
    InvalidInput::new("url", why)
}
