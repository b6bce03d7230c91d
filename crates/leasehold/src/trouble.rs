//! Trouble with the store that lasts: of what kind it is, and since when.

use std::mem::discriminant;
use std::time::Duration;

use leasehold_core::{Instant, StoreError, StoreErrorKind};

/// What is known of a request that its sender has not waited for any longer.
const CUT_OFF: &str = "the store did not answer in time";

/// The error of a request that its sender has not waited for any longer.
pub(crate) fn cut_off() -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, CUT_OFF).maybe_executed()
}

/// Whether nothing is known but that: what the store said before says more.
pub(crate) fn is_cut_off(error: &StoreError) -> bool {
    error.to_string() == CUT_OFF
}

/// What a call, a waiter or a lease is held up by, if it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Option<Lasting>);

#[derive(Clone, Debug)]
struct Lasting {
    /// The newest error that says something.
    cause: StoreError,
    since: Instant,
}

impl Trouble {
    /// Takes note of a failure, and gives for how long there has been trouble of its kind; `None`
    /// as it begins.
    pub(crate) fn note(&mut self, cause: &StoreError, now: Instant) -> Option<Duration> {
        if let Some(before) = self.0.as_ref().filter(|_| is_cut_off(cause)) {
            return Some(now.saturating_since(before.since));
        }
        let kind = discriminant(&cause.kind());
        let before = self.0.as_ref().filter(|before| discriminant(&before.cause.kind()) == kind);
        let since = before.map(|before| before.since);
        self.0 = Some(Lasting { cause: cause.clone(), since: since.unwrap_or(now) });
        since.map(|since| now.saturating_since(since))
    }

    /// An answer came. True if there was trouble before it.
    pub(crate) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// The newest error that says something, while there is trouble.
    pub(crate) fn cause(&self) -> Option<&StoreError> {
        self.0.as_ref().map(|lasting| &lasting.cause)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::StoreErrorKind as Kind;

    use super::*;

    #[test]
    fn trouble_begins_anew_when_its_kind_changes_and_not_when_its_words_do() {
        let (mut trouble, at) = (Trouble::default(), |secs| Instant::from_origin(secs));
        let [one, two, five] = [1, 2, 5].map(Duration::from_secs);
        let error = |kind, words| StoreError::new(kind, words);
        assert!(!trouble.end());
        assert_eq!(trouble.note(&error(Kind::Timeout, "slow"), at(one)), None);
        assert_eq!(trouble.note(&error(Kind::Unreachable, "cut"), at(two)), None);
        assert_eq!(trouble.note(&error(Kind::Unreachable, "cut"), at(two)), Some(Duration::ZERO));
        assert_eq!(trouble.note(&error(Kind::Unreachable, "gone"), at(five)), Some(five - two));
        assert_eq!(trouble.cause().map(ToString::to_string).as_deref(), Some("gone"));
        assert_eq!(trouble.note(&cut_off(), at(five)), Some(five - two));
        assert_eq!(trouble.cause().map(StoreError::kind), Some(Kind::Unreachable));
        assert!(trouble.end() && trouble.cause().is_none());
        assert_eq!(trouble.note(&cut_off(), at(five)), None, "all that is known");
        assert_eq!(trouble.note(&error(Kind::Unreachable, "cut"), at(five)), None);
        trouble.end();
        let quorum = |granted| Kind::NoQuorum { granted, needed: 2, nodes: 3 };
        trouble.note(&error(quorum(0), "none"), at(one));
        assert_eq!(trouble.note(&error(quorum(1), "one"), at(five)), Some(five - one));
    }
}
