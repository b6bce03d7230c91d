//! Text in commands, files, headers and URLs: spans with a unit, and percent-encoding.

use std::time::Duration;

use crate::name::InvalidInput;

/// The units, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The longest span: a hundred years. Nobody waits longer, and adding it to a time never overflows.
const LONGEST: Duration = Duration::from_hours(24 * 36_500);

/// Reads a span: numbers, each with a unit out of `ms`, `s`, `m` or `min`, `h`, `d`, as in `30s`,
/// `500ms`, `1h30m` or `1.5h`. Parts of a nanosecond are dropped. A span above a hundred years
/// becomes a hundred years, which means for ever.
///
/// A bare number is refused: half of all tools mean seconds by it and the other half milliseconds.
///
/// # Errors
///
/// [`InvalidInput`] says what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidInput> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let why = format!("{text:?} has no unit: write {text}s for seconds, {text}ms for less");
        return Err(InvalidInput::new("duration", why));
    }
    let invalid = |why: String| InvalidInput::new("duration", format!("{text:?} {why}"));
    let wrong = || invalid("is not a duration: write 500ms, 30s, 1.5h or 1h30m".to_owned());
    let mut rest = text;
    let mut total_ns = 0_u128;
    let mut next_unit = 0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let letters = &rest[digits..];
        let length = letters.find(|c: char| c.is_ascii_digit()).unwrap_or(letters.len());
        // systemd writes `5min`.
        let unit = if &letters[..length] == "min" { "m" } else { &letters[..length] };
        // Each unit may come once, the longer ones first: `30s1h` is more likely a mistake.
        let at = UNITS[next_unit..].iter().position(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let (_, unit_ms) = UNITS[next_unit + at];
        next_unit += at + 1;
        let part_ns = nanoseconds(&rest[..digits], unit_ms).ok_or_else(wrong)?;
        // A span that is too long may overflow the type.
        total_ns += part_ns.min(LONGEST.as_nanos());
        rest = &letters[length..];
        if rest.is_empty() {
            break;
        }
    }
    // A span that does not fit into the type is longer than the longest allowed one.
    Ok(u64::try_from(total_ns).map_or(LONGEST, Duration::from_nanos).min(LONGEST))
}

/// Converts a number of units to nanoseconds: `None` if the text is no number, and the largest
/// value if it is too large.
fn nanoseconds(number: &str, unit_ms: u64) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let unit_ns = u128::from(unit_ms) * 1_000_000;
    let whole_ns = whole.parse::<u128>().ok().and_then(|whole| whole.checked_mul(unit_ns));
    // A day has fewer than 10^14 nanoseconds, so further digits do not matter.
    let part = &part[..part.len().min(14)];
    let part_ns = part.parse::<u128>().ok()? * unit_ns / 10_u128.pow(part.len() as u32); // 14 fits
    Some(whole_ns.and_then(|whole_ns| whole_ns.checked_add(part_ns)).unwrap_or(u128::MAX))
}

/// Writes a span for people: at most two units, and no parts below a tenth of a second if the span
/// is longer than that.
pub fn show_duration(span: Duration) -> String {
    let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..10_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        _ => {
            let largest = UNITS.iter().position(|(_, unit_ms)| ms >= *unit_ms).unwrap_or(3).min(3);
            let (unit, unit_ms) = UNITS[largest];
            let (smaller, smaller_ms) = UNITS[largest + 1];
            let left = ms % unit_ms / smaller_ms;
            match (largest, left) {
                (3, _) | (_, 0) => format!("{}{unit}", ms / unit_ms),
                _ => format!("{}{unit}{left}{smaller}", ms / unit_ms),
            }
        }
    }
}

/// Writes a span as text that [`parse_duration`] reads back without loss.
pub(crate) fn exact(span: Duration) -> String {
    match (span.as_secs(), span.subsec_nanos()) {
        (seconds, 0) => format!("{seconds}s"),
        (0, nanos) if nanos % 1_000_000 == 0 => format!("{}ms", nanos / 1_000_000),
        (seconds, nanos) => {
            let part = format!("{nanos:09}");
            format!("{seconds}.{}s", part.trim_end_matches('0'))
        }
    }
}

/// A span as exact text, for `serde`.
#[cfg(feature = "serde")]
pub(crate) mod span {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        super::exact(*span).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

/// The same for an optional span.
#[cfg(feature = "serde")]
pub(crate) mod optional_span {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(super::exact).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let span = text.map(|text| super::parse_duration(&text)).transpose();
        span.map_err(serde::de::Error::custom)
    }
}

/// Decodes `%2F` and other escapes of URLs and headers; `None` for a `%` without two hex digits, or
/// if the result is not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8); // two hex digits fit a byte
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

/// The scheme of a URL and the text after its `:`; `None` if the text before the `:` is no scheme:
/// it may be a piece of a password.
pub fn split_scheme(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let is_plain = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    (is_plain && !scheme.is_empty()).then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_span_is_numbers_with_units() {
        for (text, ms) in [
            ("0s", 0),
            ("1ms", 1),
            ("1h5min", 3_900_000),
            ("500ms", 500),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1m500ms", 60_500),
            ("0.5s", 500),
            ("1.5h", 5_400_000),
            ("1.5m0.25s", 90_250),
            ("0.25000000000000000000000d", 21_600_000),
            ("36500d", 36_500 * 86_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_and_told_what_to_write() {
        let refusal = parse_duration("10").unwrap_err();
        assert!(refusal.why.contains("write 10s"), "{refusal}");
    }

    #[test]
    fn a_span_beyond_a_hundred_years_is_that_long() {
        for text in [
            "9223372036854775808s",
            "36500d1ms",
            "36501d",
            "36500d876000h",
            "999999999999999999999999999999999999999999d",
        ] {
            assert_eq!(parse_duration(text).unwrap(), LONGEST, "{text}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_span_is_written_to_a_configuration_file_as_people_would() {
        for (micros, written) in
            [(2_000_000, "2s"), (500_000, "500ms"), (1_500, "0.0015s"), (1_500_000, "1.5s")]
        {
            assert_eq!(exact(Duration::from_micros(micros)), written);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "s", "-1s", ".5s", "1.s", "1..5s", "1.5.5s", "1,5s", "1.5", "1 s", " 1s", "1S",
            "10x", "1s1s", "30s1h", "1h30", "+1s", "1µs", "ünf",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_span_is_shown_with_two_units_at_most() {
        for (ms, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (1000, "1.0s"),
            (9_990, "9.9s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (61_000, "1m1s"),
            (3_599_000, "59m59s"),
            (3_600_000, "1h"),
            (5_400_000, "1h30m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(show_duration(Duration::from_millis(ms)), shown);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _outcome = parse_duration(&text);
        }

        #[cfg(feature = "serde")]
        #[test]
        fn any_span_survives_a_configuration_file(ns in 0_u64..u64::MAX / 8) {
            let span = Duration::from_nanos(ns);
            prop_assert_eq!(parse_duration(&exact(span)), Ok(span));
        }

        #[test]
        fn whole_seconds_from_ten_on_survive_being_shown_with_two_units(s in 10_u64..3600) {
            let span = Duration::from_secs(s);
            prop_assert_eq!(parse_duration(&show_duration(span)), Ok(span));
        }
    }

    #[test]
    fn a_scheme_is_plain_or_none() {
        assert_eq!(split_scheme("redis+unix:///a:b"), Some(("redis+unix", "///a:b")));
        for none in ["", "redis", ":pw@h", "pw@h:6379", "redis//pw@h:1", " redis://h", "a b:c"] {
            assert_eq!(split_scheme(none), None, "{none}");
        }
    }

    #[test]
    fn percent_signs_stand_for_bytes_and_need_two_digits() {
        assert_eq!(percent_decode("a%2Fb%c3%bc").as_deref(), Some("a/bü"));
        for wrong in ["%", "%2", "%zz", "%+1", "%ff"] {
            assert_eq!(percent_decode(wrong), None, "{wrong}");
        }
    }
}
