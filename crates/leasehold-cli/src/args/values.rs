//! Reads the values of options, and says what is wrong with a value that cannot be read.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold::error::InvalidInput;
use leasehold::lease::Mode;
use leasehold::time::parse_duration;
use leasehold::{LeaseOptions, LockName};
use rustix::process::Pid;

use super::parse::NAME_MARK;

/// The most permits that a semaphore has: one less than the capacity of a lock.
const MOST_PERMITS: u32 = i32::MAX as u32 - 1;

pub(super) fn name(text: &str) -> Result<LockName, InvalidInput> {
    LockName::new(text.strip_prefix(NAME_MARK).unwrap_or(text))
}

pub(super) fn pid(text: &str) -> Result<Pid, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    let pid = number.and_then(Pid::from_raw);
    pid.ok_or_else(|| format!("{text:?} is no process: write its number, as in --pid $$"))
}

/// Reads a span that is longer than zero.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the hold would be over before it has begun".to_owned()),
        span => Ok(span),
    }
}

pub(super) fn permits(text: &str) -> Result<Mode, String> {
    let numbers = text.split_once('/').filter(|(count, of)| is_number(count) && is_number(of));
    let wrong = || format!("{text:?} is not K/N: write 1/4 for one of four");
    let (count, capacity) = numbers.ok_or_else(wrong)?;
    let mode = Mode::Permits { count: number(count)?, capacity: number(capacity)? };
    mode.check().map_err(|refusal| refusal.to_string())?;
    Ok(mode)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(digits: &str) -> Result<u32, String> {
    let too_many = |_| format!("{digits} permits are too many: give at most {MOST_PERMITS}");
    digits.parse().map_err(too_many)
}

/// Reads a span. A bare number means seconds, as for flock(1) and timeout(1).
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let is_bare = text.ends_with(|last: char| last.is_ascii_digit());
    let is_number = is_bare && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let unit = if is_number { "s" } else { "" };
    parse_duration(&format!("{text}{unit}")).map_err(|refusal| refusal.to_string())
}

/// Reads a ttl.
pub(super) fn ttl(text: &str) -> Result<Duration, String> {
    lease_span(text, |ttl| LeaseOptions { ttl, ..LeaseOptions::default() })
}

/// Reads a span for an option of leases, and checks that it is within the bounds of that option.
pub(super) fn lease_span(
    text: &str,
    options: impl FnOnce(Duration) -> LeaseOptions,
) -> Result<Duration, String> {
    let span = duration(text)?;
    options(span).check().map_err(|refusal| refusal.to_string())?;
    Ok(span)
}

/// Reads the span in which one run is enough.
pub(super) fn once_per(text: &str) -> Result<Duration, String> {
    lease_span(text, |span| LeaseOptions { once_per: Some(span), ..LeaseOptions::default() })
}

/// Reads an address with a port.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it is no address with a port: write 127.0.0.1:9740 for this machine alone, or \
         0.0.0.0:9740 for others, too"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_two_numbers_of_which_the_first_is_not_larger() {
        assert_eq!(permits("1/4"), Ok(Mode::Permits { count: 1, capacity: 4 }));
        for wrong in ["", "1", "1/", "/4", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b"] {
            assert!(permits(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_called_that() {
        for large in ["1/4000000000000", "4000000000000/4", "1/2147483647"] {
            let why = permits(large).unwrap_err();
            assert!(why.contains("2147483646") && !why.contains("K/N"), "{why}");
        }
    }

    #[test]
    fn a_bare_number_means_seconds_as_for_flock_and_timeout() {
        for (text, ms) in
            [("10", 10_000), ("0.5", 500), ("0", 0), ("0.5s", 500), ("1.5h", 5_400_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        let for_ever = duration("36500d");
        for text in ["36501d", "1000000d", "4294967296s", "9223372036854775808"] {
            assert_eq!(duration(text), for_ever, "{text}");
        }
        for wrong in ["", ".", "1.", ".5", "1h30", "-1", "1e3", "1.5.5"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
