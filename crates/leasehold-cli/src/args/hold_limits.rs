//! `--min-hold`, `--max-hold` and `--remember`: how they are read, and shown as they were typed.

use std::fmt;
use std::time::Duration;

use clap::Args;

use super::values::{lease_span, span};
use crate::report::Failure;

/// A limit, as it was typed.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    option: &'static str,
    text: String,
    pub(crate) span: Duration,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.text)
    }
}

/// For how long a name is held, at least and at most, and for how long it is remembered.
#[derive(Args, Clone, Debug)]
pub(crate) struct HoldArgs {
    /// Keeps the name from others for at least this time from the start, even if the work ends
    /// earlier. For jobs that start on machines with different clocks (alias: --at-least)
    #[arg(long, alias = "at-least", value_name = "DURATION", value_parser = least)]
    min_hold: Option<Limit>,
    /// Ends the work under the lock after this time, and releases the lock, with exit code 76
    /// (alias: --at-most)
    #[arg(long, alias = "at-most", value_name = "DURATION", value_parser = most)]
    pub(crate) max_hold: Option<Limit>,
    /// Remembers the last holder of the name for at least this long from the start of the hold, so
    /// `show` says when a job ran last. Without this option, the store forgets that after 2 min
    #[arg(long, value_name = "DURATION", value_parser = remember)]
    pub(crate) remember: Option<Duration>,
}

impl HoldArgs {
    /// The value of --min-hold, if it was given.
    ///
    /// # Errors
    ///
    /// If it is longer than --max-hold.
    pub(crate) fn min_hold(&self) -> Result<Option<Duration>, Failure> {
        if let (Some(least), Some(most)) = (&self.min_hold, &self.max_hold)
            && least.span > most.span
        {
            return Err(Failure::usage(format!("{least} is longer than {most}")));
        }
        Ok(self.min_hold.as_ref().map(|least| least.span))
    }
}

fn least(text: &str) -> Result<Limit, String> {
    let span = lease_span(text, |options, span| options.min_hold = Some(span))?;
    Ok(Limit { option: "--min-hold", text: text.to_owned(), span })
}

fn remember(text: &str) -> Result<Duration, String> {
    lease_span(text, |options, span| options.remember = Some(span))
}

fn most(text: &str) -> Result<Limit, String> {
    Ok(Limit { option: "--max-hold", text: text.to_owned(), span: span(text)? })
}
