//! Spans among the options of a store: their form in a store URL, and their ranges.

use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::text::parse_duration;

/// How long opening a connection may take at least: 5 s, enough for two lost SYN packets and a slow
/// name server.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest difference between the clocks of servers that take over from each other: 500 ms, far
/// above what NTP leaves, and short compared with the usual ttl.
pub(super) const OFFSET: Duration = Duration::from_millis(500);

/// The least and the greatest value of a span.
pub(super) type Range = (Duration, Duration);

/// The range of a timeout: below 10 ms a busy machine looks like a dead server.
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
    (least, most): Range,
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
