//! Spans of time on the command line: how they are read, and shown again as they were typed.

use std::fmt;
use std::time::Duration;

use clap::Args;
use leasehold::{LeaseOptions, parse_duration};

use crate::report::Failure;

/// A span, and what was typed for it.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    text: String,
    span: Duration,
}

/// A limit, and the option it was given by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    option: &'static str,
    typed: &'a Typed,
}

impl Given<'_> {
    pub(crate) fn span(self) -> Duration {
        self.typed.span
    }
}

impl fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.typed.text)
    }
}

/// How long a name is held, at least and at most, each by two names.
#[derive(Args, Clone, Debug)]
pub(crate) struct HoldArgs {
    /// Keeps the name taken for so long from the start, by nobody, even if it is let go before:
    /// for jobs that machines start whose clocks differ
    #[arg(long, value_name = "DURATION", value_parser = least)]
    at_least: Option<Typed>,
    /// The same as --at-least
    #[arg(long, value_name = "DURATION", value_parser = least, conflicts_with = "at_least")]
    min_hold: Option<Typed>,
    /// Ends what is done under the lock once it has lasted so long, and lets go, with exit code 76
    #[arg(long, value_name = "DURATION", value_parser = most)]
    at_most: Option<Typed>,
    /// The same as --at-most
    #[arg(long, value_name = "DURATION", value_parser = most, conflicts_with = "at_most")]
    max_hold: Option<Typed>,
}

impl HoldArgs {
    /// How long the name stays taken, if that was said.
    ///
    /// # Errors
    ///
    /// When it is longer than the other limit.
    pub(crate) fn least(&self) -> Result<Option<Duration>, Failure> {
        let least = either(("--at-least", &self.at_least), ("--min-hold", &self.min_hold));
        if let (Some(least), Some(most)) = (least, self.most())
            && least.span() > most.span()
        {
            return Err(Failure::usage(format!("{least} is longer than {most}")));
        }
        Ok(least.map(Given::span))
    }

    /// How long it may last, if that was said.
    pub(crate) fn most(&self) -> Option<Given<'_>> {
        either(("--at-most", &self.at_most), ("--max-hold", &self.max_hold))
    }
}

fn either<'a>(
    one: (&'static str, &'a Option<Typed>),
    other: (&'static str, &'a Option<Typed>),
) -> Option<Given<'a>> {
    let given = |(option, typed): (_, &'a Option<Typed>)| {
        typed.as_ref().map(|typed| Given { option, typed })
    };
    given(one).or_else(|| given(other))
}

/// Reads a span. A bare number means seconds, as for flock(1) and timeout(1).
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let is_bare = text.ends_with(|last: char| last.is_ascii_digit());
    let parsed = match is_bare && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => parse_duration(&format!("{text}s")),
        false => parse_duration(text),
    };
    parsed.map_err(|refusal| refusal.to_string())
}

/// Reads a ttl.
pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let mut options = LeaseOptions::default();
    options.ttl = duration(text)?;
    options.check().map_err(|refusal| refusal.to_string())?;
    Ok(options.ttl)
}

fn least(text: &str) -> Result<Typed, String> {
    let mut options = LeaseOptions::default();
    options.min_hold = Some(duration(text)?);
    options.check().map_err(|refusal| refusal.to_string())?;
    typed(text)
}

fn most(text: &str) -> Result<Typed, String> {
    let most = typed(text)?;
    match most.span.is_zero() {
        true => Err("it would be over before it has begun".to_owned()),
        false => Ok(most),
    }
}

fn typed(text: &str) -> Result<Typed, String> {
    Ok(Typed { text: text.to_owned(), span: duration(text)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_means_seconds_as_for_flock_and_timeout() {
        for (text, ms) in
            [("10", 10_000), ("0.5", 500), ("0", 0), ("0.5s", 500), ("1.5h", 5_400_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", ".", "1.", ".5", "1h30", "-1", "1e3", "1.5.5"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
