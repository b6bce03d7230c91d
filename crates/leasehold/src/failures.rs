//! Requests that keep failing, and the kind of their error.

use std::error::Error;
use std::mem::discriminant;

use leasehold_core::{StoreError, StoreErrorKind};

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

/// Whether a request failed because its server could not be reached.
pub(crate) fn is_out_of_reach(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Timeout | StoreErrorKind::Unreachable)
}

/// Failures since the last success: of a call, of a waiter, or of a lease's renewals. It keeps the
/// newest error other than [`no_answer`], if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailureStreak(Option<Box<StoreError>>);

impl FailureStreak {
    /// Records a failure, and returns whether it is the first, or of another kind than the one
    /// before.
    pub(crate) fn record(&mut self, cause: &StoreError) -> bool {
        let before = self.0.as_ref().map(|before| discriminant(&before.kind()));
        if before.is_some() && is_no_answer(cause) {
            return false;
        }
        self.0 = Some(Box::new(cause.clone()));
        before != Some(discriminant(&cause.kind()))
    }

    /// Records a success. True if requests had failed before it.
    pub(crate) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// The newest error other than [`no_answer`], if there is one, while requests fail.
    pub(crate) fn cause(&self) -> Option<&StoreError> {
        self.0.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::StoreErrorKind as Kind;

    use super::*;

    #[test]
    fn a_streak_begins_anew_when_the_kind_of_error_changes_and_not_when_its_text_does() {
        let mut streak = FailureStreak::default();
        let error = StoreError::new;
        assert!(!streak.end());
        assert!(streak.record(&error(Kind::Timeout, "slow")));
        assert!(streak.record(&error(Kind::Unreachable, "cut")));
        assert!(!streak.record(&error(Kind::Unreachable, "gone")));
        assert_eq!(streak.cause().map(ToString::to_string).as_deref(), Some("gone"));
        assert!(!streak.record(&no_answer()));
        assert_eq!(streak.cause().map(StoreError::kind), Some(Kind::Unreachable));
        assert!(streak.end() && streak.cause().is_none());
        assert!(streak.record(&no_answer()), "all that is known");
        assert!(streak.record(&error(Kind::Unreachable, "cut")));
        let quorum = |granted| Kind::NoQuorum { granted, needed: 2, nodes: 3 };
        assert!(streak.record(&error(quorum(0), "none")));
        assert!(!streak.record(&error(quorum(1), "one")));
    }
}
