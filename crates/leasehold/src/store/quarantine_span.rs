//! The length of a quarantine: an option of stores on servers.

use std::time::Duration;

use leasehold_core::InvalidInput;

use super::option_value::Value;
use super::span::{self, Range};

/// How long `quarantine=on` lasts: 1 min, twice the usual ttl.
pub(crate) const QUARANTINE: Duration = Duration::from_mins(1);

/// The range of a quarantine: up to the longest lease that somebody may hold.
pub(crate) const QUARANTINES: Range = (Duration::from_secs(1), Duration::from_hours(24));

/// Whether there is a quarantine, and how long it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QuarantineSpan {
    /// The option was not given, and the store has a default.
    #[default]
    Default,
    Off,
    Of(Duration),
}

impl From<Option<Duration>> for QuarantineSpan {
    fn from(span: Option<Duration>) -> Self {
        span.map_or(Self::Off, Self::Of)
    }
}

impl From<QuarantineSpan> for Option<Duration> {
    fn from(span: QuarantineSpan) -> Self {
        match span {
            QuarantineSpan::Of(span) => Some(span),
            QuarantineSpan::Default | QuarantineSpan::Off => None,
        }
    }
}

impl Value for QuarantineSpan {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        match text.as_str() {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::Of(QUARANTINE)),
            span => span::read(name, span).map(Self::Of),
        }
    }
}
