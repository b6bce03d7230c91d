//! Formats points in time for programs and for people.

use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit, Zoned};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let passed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    millis(passed.unwrap_or_default())
}

/// The start of something that had lasted for `lasted` at `seen_ms`.
pub(crate) fn began_ms(seen_ms: u64, lasted: Duration) -> u64 {
    seen_ms.saturating_sub(millis(lasted))
}

/// A moment for programs, as in `2026-11-22T14:02:11Z`. It has whole seconds, because the moment
/// was measured by the clock of a store, and this machine's clock differs.
pub(crate) fn iso(at_ms: u64) -> String {
    rounded(at_ms).to_string()
}

/// A moment for people, in local time: `14:02:11` for today, and with a date and without seconds
/// for another day.
pub(crate) fn local(at_ms: u64, now_ms: u64) -> String {
    in_zone(at_ms, now_ms, &TimeZone::system())
}

/// A moment that may be days away, for people in other time zones: `Thu 14:00 CET`, or with its
/// date if it is more than six days away.
pub(crate) fn day_and_time(at_ms: u64) -> String {
    day_and_time_in(at_ms, now_ms(), &TimeZone::system())
}

fn day_and_time_in(at_ms: u64, now_ms: u64, zone: &TimeZone) -> String {
    const SIX_DAYS_MS: u64 = 6 * 86_400_000;
    let at = Zoned::new(rounded(at_ms), zone.clone());
    let is_near = at_ms.saturating_sub(now_ms) <= SIX_DAYS_MS;
    at.strftime(if is_near { "%a %H:%M %Z" } else { "%Y-%m-%d %H:%M %Z" }).to_string()
}

fn in_zone(at_ms: u64, now_ms: u64, zone: &TimeZone) -> String {
    let zoned = |at_ms| Zoned::new(rounded(at_ms), zone.clone());
    let (at, now) = (zoned(at_ms), zoned(now_ms));
    let form = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    at.strftime(form).to_string()
}

fn rounded(at_ms: u64) -> Timestamp {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let at = at.unwrap_or(Timestamp::MAX);
    at.round(Unit::Second).unwrap_or(at)
}

/// Whole milliseconds.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T14:02:10.600Z.
    const AT_MS: u64 = 1_795_356_130_600;

    #[test]
    fn programs_read_utc_and_people_the_clock_on_their_wall() {
        assert_eq!(iso(AT_MS), "2026-11-22T14:02:11Z");
        let vienna = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(in_zone(AT_MS, AT_MS + 60_000, &vienna), "15:02:11");
        // Nine hours later, the next day has begun in Vienna, but not yet in UTC.
        assert_eq!(in_zone(AT_MS, AT_MS + 9 * 3_600_000, &vienna), "2026-11-22 15:02");
    }

    #[test]
    fn a_moment_of_this_week_has_its_day_and_a_later_one_its_date() {
        let of = |days: u64| day_and_time_in(AT_MS + days * 86_400_000, AT_MS, &TimeZone::UTC);
        assert_eq!(of(3), "Wed 14:02 UTC");
        assert_eq!(of(7), "2026-11-29 14:02 UTC");
    }

    #[test]
    fn a_moment_beyond_all_calendars_is_the_last_one() {
        assert_eq!(iso(u64::MAX), Timestamp::MAX.to_string());
        assert_eq!(began_ms(5, Duration::from_secs(1)), 0);
    }
}
