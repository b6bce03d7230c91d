//! The options of one lease, and the relations between them.

use std::time::Duration;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::holder::HolderInfo;
use crate::name::InvalidInput;
use crate::text::exact;

/// The default ttl: 30 s. With a renewal every ttl / 3, two lost renewals still leave a third of
/// the lease; a crashed holder blocks others for half a minute at most. Redisson's
/// `lockWatchdogTimeout` is the same.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The shortest ttl: 100 ms. A tenth of it must have room for a round trip, a scheduling delay and
/// the margin of a few milliseconds.
pub const MIN_TTL: Duration = Duration::from_millis(100);

/// The longest ttl: 24 h. For longer work the lease is renewed; a crashed holder must not block
/// others for days.
pub const MAX_TTL: Duration = Duration::from_hours(24);

/// The longest time in which one run can be enough: 366 days, for a yearly job.
pub const MAX_ONCE_PER: Duration = Duration::from_hours(366 * 24);

/// The choice of who renews a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Renewal {
    /// The keeper renews the lease every third of its ttl, until the lease is released.
    #[default]
    Auto,
    /// The lease ends after its ttl, unless the holder calls `Guard::renew`. A call for several
    /// names renews those that it has until it has all of them.
    Off,
}

/// All options of one lease, as a value that can come from a configuration file. With the feature
/// `serde`, spans in that file are text with a unit, such as `ttl = "30s"`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct LeaseOptions {
    /// How long the store is asked to keep the lease: 100 ms to 24 h, 30 s by default.
    #[cfg_attr(feature = "serde", serde(with = "crate::text::span"))]
    pub ttl: Duration,
    /// Who renews the lease: the keeper by default.
    pub renewal: Renewal,
    /// Renewal stops and the lease is lost after this time, even if its holder is healthy. The time
    /// counts from the grant; with several names, from the last grant.
    #[cfg_attr(feature = "serde", serde(with = "crate::text::optional_span"))]
    pub max_hold: Option<Duration>,
    /// The name stays taken for this time, counted from the grant, even if it is released before;
    /// zero by default.
    #[cfg_attr(feature = "serde", serde(with = "crate::text::optional_span"))]
    pub min_hold: Option<Duration>,
    /// The name is not granted if a run has succeeded that began less than this time ago. At most
    /// 366 days.
    #[cfg_attr(feature = "serde", serde(with = "crate::text::optional_span"))]
    pub once_per: Option<Duration>,
    /// The label of the holder, for operators.
    pub label: Option<String>,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            renewal: Renewal::default(),
            max_hold: None,
            min_hold: None,
            once_per: None,
            label: None,
        }
    }
}

impl LeaseOptions {
    /// Checks every value and the relations between them.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the first value that is out of range, and the range.
    pub fn check(&self) -> Result<(), InvalidInput> {
        let least = Duration::from_nanos(1);
        for (what, span, range, words) in [
            ("ttl", Some(self.ttl), MIN_TTL..=MAX_TTL, "100 ms to 24 h"),
            ("max_hold", self.max_hold, least..=Duration::MAX, "more, or every lease is lost"),
            ("min_hold", self.min_hold, Duration::ZERO..=MAX_TTL, "at most 24 h"),
            ("once_per", self.once_per, Duration::ZERO..=MAX_ONCE_PER, "at most 366 days"),
        ] {
            if let Some(span) = span.filter(|span| !range.contains(span)) {
                let why = format!("the {what} is {}: give {words}", exact(span));
                return Err(InvalidInput::new(what, why));
            }
        }
        if let (Some(least), Some(most)) = (self.min_hold, self.max_hold)
            && least > most
        {
            let [least, most] = [least, most].map(exact);
            let why = format!("a min_hold of {least} is longer than the max_hold of {most}");
            return Err(InvalidInput::new("min_hold", why));
        }
        HolderInfo { label: self.label.clone(), ..HolderInfo::default() }.check()
    }

    /// The validity below which a grant is given back: half of the ttl if nothing renews the lease.
    pub fn least_validity(&self) -> Duration {
        match self.renewal {
            Renewal::Auto => Duration::ZERO,
            Renewal::Off => self.ttl / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut LeaseOptions)) -> Result<(), &'static str> {
        let mut options = LeaseOptions::default();
        change(&mut options);
        options.check().map_err(|refusal| refusal.what)
    }

    #[test]
    fn each_value_out_of_range_is_named() {
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|o| o.ttl = Duration::ZERO), Err("ttl"));
        assert_eq!(with(|o| o.ttl = Duration::from_millis(99)), Err("ttl"));
        assert_eq!(with(|o| o.ttl = MAX_TTL + Duration::from_nanos(1)), Err("ttl"));
        assert_eq!(with(|o| o.max_hold = Some(Duration::ZERO)), Err("max_hold"));
        let too_long = MAX_ONCE_PER + Duration::from_nanos(1);
        assert_eq!(with(|o| o.once_per = Some(too_long)), Err("once_per"));
        assert_eq!(with(|o| o.label = Some("x".repeat(1025))), Err("label"));
        assert_eq!(with(|o| o.label = Some("a\u{7}".into())), Err("label"));
        let backwards = |o: &mut LeaseOptions| {
            (o.min_hold, o.max_hold) = (Some(MIN_TTL * 2), Some(MIN_TTL));
        };
        assert_eq!(with(backwards), Err("min_hold"));
        let too_long = MAX_TTL + Duration::from_nanos(1);
        assert_eq!(with(|o| o.min_hold = Some(too_long)), Err("min_hold"));
    }

    #[test]
    fn a_refusal_shows_what_was_given() {
        let options = LeaseOptions { ttl: Duration::from_secs(86_401), ..Default::default() };
        assert!(options.check().unwrap_err().why.contains("86401s"));
    }

    #[test]
    fn the_ends_of_each_range_are_in_it() {
        assert_eq!(with(|o| o.ttl = MIN_TTL), Ok(()));
        assert_eq!(with(|o| o.ttl = MAX_TTL), Ok(()));
        assert_eq!(with(|o| o.min_hold = Some(MAX_TTL)), Ok(()));
        assert_eq!(with(|o| o.once_per = Some(MAX_ONCE_PER)), Ok(()));
        let same = |o: &mut LeaseOptions| (o.min_hold, o.max_hold) = (Some(MIN_TTL), Some(MIN_TTL));
        assert_eq!(with(same), Ok(()));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_configuration_file_says_spans_with_a_unit() {
        let text = "ttl = '30s'\nmin_hold = '1m30s'\nmax_hold = '1h30m'\nrenewal = 'off'\n\
                    label = 'nightly'\n";
        let options: LeaseOptions = toml::from_str(text).unwrap();
        let (ttl, min_hold) = (Duration::from_secs(30), Some(Duration::from_secs(90)));
        assert_eq!((options.ttl, options.min_hold, options.renewal), (ttl, min_hold, Renewal::Off));
        assert_eq!(options.max_hold, Some(Duration::from_secs(5_400)));
        assert_eq!(options.label.as_deref(), Some("nightly"));
        let written = toml::to_string(&options).unwrap();
        assert!(written.contains("min_hold = \"90s\"\n"), "{written}");
        assert_eq!(toml::from_str::<LeaseOptions>(&written).unwrap(), options);
        let refusal = |text: &str| toml::from_str::<LeaseOptions>(text).unwrap_err().to_string();
        assert!(refusal("ttl = \"30\"").contains("write 30s for seconds"), "the remedy is shown");
        assert!(refusal("ttl = 30").contains("ttl"), "a number needs its unit");
        assert!(refusal("tll = \"30s\"").contains("tll"), "what is unknown is named");
    }

    #[test]
    fn a_lease_that_nothing_renews_must_leave_half_of_its_ttl() {
        let options = LeaseOptions { renewal: Renewal::Off, ..LeaseOptions::default() };
        assert_eq!(options.least_validity(), DEFAULT_TTL / 2);
        assert_eq!(LeaseOptions::default().least_validity(), Duration::ZERO);
    }
}
