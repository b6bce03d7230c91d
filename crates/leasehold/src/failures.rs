//! Requests that keep failing: the kind of their error, and since when they fail.

use std::error::Error;
use std::mem::discriminant;
use std::time::Duration;

use leasehold_core::{Instant, StoreError, StoreErrorKind};

/// The source of [`no_answer`].
#[derive(Debug, thiserror::Error)]
#[error("the request was given up")]
struct GivenUp;

/// The error of a request whose sender has stopped waiting for the answer.
pub(crate) fn no_answer() -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, "the store did not answer in time")
        .maybe_executed()
        .with_source(GivenUp)
}

/// Whether an error is [`no_answer`]. If so, the error before it says more.
pub(crate) fn is_no_answer(error: &StoreError) -> bool {
    error.source().is_some_and(<dyn Error>::is::<GivenUp>)
}

/// Failures of one kind since the last success: of a call, of a waiter, or of a lease's renewals.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailureStreak(Option<Streak>);

#[derive(Clone, Debug)]
struct Streak {
    /// The newest error other than [`no_answer`], if there is one.
    cause: StoreError,
    since: Instant,
}

impl FailureStreak {
    /// Records a failure, and returns for how long requests have failed with errors of its kind;
    /// `None` for the first such failure.
    pub(crate) fn record(&mut self, cause: &StoreError, now: Instant) -> Option<Duration> {
        if let Some(before) = self.0.as_ref().filter(|_| is_no_answer(cause)) {
            return Some(now.saturating_since(before.since));
        }
        let kind = discriminant(&cause.kind());
        let before = self.0.as_ref().filter(|before| discriminant(&before.cause.kind()) == kind);
        let since = before.map(|before| before.since);
        self.0 = Some(Streak { cause: cause.clone(), since: since.unwrap_or(now) });
        since.map(|since| now.saturating_since(since))
    }

    /// Records a success. True if requests had failed before it.
    pub(crate) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// The newest error other than [`no_answer`], if there is one, while requests fail.
    pub(crate) fn cause(&self) -> Option<&StoreError> {
        self.0.as_ref().map(|streak| &streak.cause)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::StoreErrorKind as Kind;

    use super::*;

    #[test]
    fn a_streak_begins_anew_when_the_kind_of_error_changes_and_not_when_its_text_does() {
        let (mut streak, at) = (FailureStreak::default(), |secs| Instant::from_origin(secs));
        let [one, two, five] = [1, 2, 5].map(Duration::from_secs);
        let error = |kind, words| StoreError::new(kind, words);
        assert!(!streak.end());
        assert_eq!(streak.record(&error(Kind::Timeout, "slow"), at(one)), None);
        assert_eq!(streak.record(&error(Kind::Unreachable, "cut"), at(two)), None);
        assert_eq!(streak.record(&error(Kind::Unreachable, "cut"), at(two)), Some(Duration::ZERO));
        assert_eq!(streak.record(&error(Kind::Unreachable, "gone"), at(five)), Some(five - two));
        assert_eq!(streak.cause().map(ToString::to_string).as_deref(), Some("gone"));
        assert_eq!(streak.record(&no_answer(), at(five)), Some(five - two));
        assert_eq!(streak.cause().map(StoreError::kind), Some(Kind::Unreachable));
        assert!(streak.end() && streak.cause().is_none());
        assert_eq!(streak.record(&no_answer(), at(five)), None, "all that is known");
        assert_eq!(streak.record(&error(Kind::Unreachable, "cut"), at(five)), None);
        streak.end();
        let quorum = |granted| Kind::NoQuorum { granted, needed: 2, nodes: 3 };
        streak.record(&error(quorum(0), "none"), at(one));
        assert_eq!(streak.record(&error(quorum(1), "one"), at(five)), Some(five - one));
    }
}
