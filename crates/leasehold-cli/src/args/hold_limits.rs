//! `--min-hold`, `--max-hold` and `--remember`: how they are read, and shown as they were typed.

use std::fmt;
use std::time::Duration;

use clap::Args;
use leasehold::LeaseOptions;

use super::values::{duration, span};
use crate::report::Failure;

/// A span, and what was typed for it.
#[derive(Clone, Debug)]
pub(crate) struct TypedDuration {
    text: String,
    span: Duration,
}

/// A limit, and the option it was given by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenLimit<'a> {
    option: &'static str,
    typed: &'a TypedDuration,
}

impl GivenLimit<'_> {
    pub(crate) fn span(self) -> Duration {
        self.typed.span
    }
}

impl fmt::Display for GivenLimit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.typed.text)
    }
}

/// How long a name is held, at least and at most, and remembered. The hidden options are older
/// names; they are options of their own, so that a message says the one that was typed.
#[derive(Args, Clone, Debug)]
pub(crate) struct HoldArgs {
    /// Keeps the name taken for this long from the start, by nobody, even if it is let go before:
    /// for jobs that machines start whose clocks differ (alias: --at-least)
    #[arg(long, value_name = "DURATION", value_parser = least)]
    min_hold: Option<TypedDuration>,
    /// The same as --min-hold
    #[arg(long, value_parser = least, conflicts_with = "min_hold", hide = true)]
    at_least: Option<TypedDuration>,
    /// Ends what is done under the lock once it has lasted this long, and lets go, with exit code
    /// 76 (alias: --at-most)
    #[arg(long, value_name = "DURATION", value_parser = most)]
    max_hold: Option<TypedDuration>,
    /// The same as --max-hold
    #[arg(long, value_parser = most, conflicts_with = "max_hold", hide = true)]
    at_most: Option<TypedDuration>,
    /// Remembers for at least this long, from when it is asked for, who held the name last, so that
    /// `show` tells when a job ran last; without it, that is forgotten after 2 min
    #[arg(long, value_name = "DURATION", value_parser = remember)]
    remember: Option<Duration>,
}

impl HoldArgs {
    /// How long it is remembered who held the name, if that was said.
    pub(crate) fn remember(&self) -> Option<Duration> {
        self.remember
    }

    /// How long the name stays taken, if that was said.
    ///
    /// # Errors
    ///
    /// When it is longer than the other limit.
    pub(crate) fn min_hold(&self) -> Result<Option<Duration>, Failure> {
        let least = either(("--min-hold", &self.min_hold), ("--at-least", &self.at_least));
        if let (Some(least), Some(most)) = (least, self.max_hold())
            && least.span() > most.span()
        {
            return Err(Failure::usage(format!("{least} is longer than {most}")));
        }
        Ok(least.map(GivenLimit::span))
    }

    /// How long it may last, if that was said.
    pub(crate) fn max_hold(&self) -> Option<GivenLimit<'_>> {
        either(("--max-hold", &self.max_hold), ("--at-most", &self.at_most))
    }
}

fn either<'a>(
    one: (&'static str, &'a Option<TypedDuration>),
    other: (&'static str, &'a Option<TypedDuration>),
) -> Option<GivenLimit<'a>> {
    let given = |(option, typed): (_, &'a Option<TypedDuration>)| {
        typed.as_ref().map(|typed| GivenLimit { option, typed })
    };
    given(one).or_else(|| given(other))
}

fn least(text: &str) -> Result<TypedDuration, String> {
    let mut options = LeaseOptions::default();
    options.min_hold = Some(duration(text)?);
    options.check().map_err(|refusal| refusal.to_string())?;
    typed(text)
}

fn remember(text: &str) -> Result<Duration, String> {
    let mut options = LeaseOptions::default();
    options.remember = Some(duration(text)?);
    options.check().map_err(|refusal| refusal.to_string())?;
    Ok(options.remember.unwrap_or_default())
}

fn most(text: &str) -> Result<TypedDuration, String> {
    Ok(TypedDuration { text: text.to_owned(), span: span(text)? })
}

fn typed(text: &str) -> Result<TypedDuration, String> {
    Ok(TypedDuration { text: text.to_owned(), span: duration(text)? })
}
