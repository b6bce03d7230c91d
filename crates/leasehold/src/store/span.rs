//! Spans among the options of a store: their form in a store URL, and their ranges.

use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::text::parse_duration;

/// The range of `retention`: from the time that it takes to notice a lost reply, up to the longest
/// lease.
pub(super) const RETENTIONS: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_hours(24));

/// The least and the greatest value of a span.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(super) type Range = (Duration, Duration);

/// The range of a timeout: below 10 ms a busy machine looks like a dead server.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(super) const TIMEOUTS: Range = (Duration::from_millis(10), Duration::from_secs(60));

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
