//! Text that commands, files, headers and URLs carry: spans with a unit, and percent signs.

use std::time::Duration;

use crate::name::Invalid;

/// The units there are, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads a span: whole numbers, each with a unit out of `ms`, `s`, `m`, `h`, `d`, as in `30s`,
/// `500ms` or `1h30m`.
///
/// A bare number is refused: half of all tools mean seconds by it and the other half milliseconds.
///
/// # Errors
///
/// [`Invalid`] says what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, Invalid> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let why = format!("{text:?} has no unit: write {text}s for seconds, {text}ms for less");
        return Err(Invalid::new("duration", why));
    }
    let spelled = || format!("{text:?} is not a duration: write 500ms, 30s, 10m, 2h or 1h30m");
    let wrong = || Invalid::new("duration", spelled());
    let mut rest = text;
    let mut total_ms = 0_u64;
    let mut next_unit = 0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let letters = &rest[digits..];
        let length = letters.find(|c: char| c.is_ascii_digit()).unwrap_or(letters.len());
        let unit = &letters[..length];
        // Each unit once, the longer ones first: `30s1h` is more likely a slip than a wish.
        let at = UNITS[next_unit..].iter().position(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let (_, unit_ms) = UNITS[next_unit + at];
        next_unit += at + 1;
        total_ms = number
            .checked_mul(unit_ms)
            .and_then(|part_ms| total_ms.checked_add(part_ms))
            .ok_or_else(wrong)?;
        rest = &letters[length..];
        if rest.is_empty() {
            return Ok(Duration::from_millis(total_ms));
        }
    }
}

/// Writes a span for people: at most two units, nothing below a tenth of a second once it is
/// longer than that.
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

/// Undoes `%2F` and the like, as URLs and headers have it; `None` for a `%` without two hex digits,
/// or if the outcome is no UTF-8.
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

/// The scheme of a URL and what follows its `:`; `None` where something else stands before it,
/// which may be a piece of a password.
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
    fn a_span_is_whole_numbers_with_units() {
        for (text, ms) in [
            ("0s", 0),
            ("1ms", 1),
            ("500ms", 500),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1m500ms", 60_500),
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
    fn anything_else_is_refused() {
        for text in [
            "",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            " 1s",
            "1S",
            "10x",
            "1s1s",
            "30s1h",
            "1h30",
            "+1s",
            "99999999999999999999s",
            "999999999999999999d",
            "1µs",
            "ünf",
        ] {
            assert!(parse_duration(text).is_err(), "{text:?}");
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
