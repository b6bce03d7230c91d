//! The findings of an examination of a store.

use std::fmt;

/// The effect of a finding on the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// A promise breaks in the course of an ordinary failure, or nothing can be locked at all.
    Danger,
    /// All is well.
    Ok,
    /// The state costs something, or breaks a promise together with another fault.
    Warning,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The severity of the finding.
    pub level: Level,
    /// The server or the file that was checked.
    pub place: String,
    /// The topic of the check in one word, such as `persistence`.
    pub topic: &'static str,
    /// The state that was found.
    pub found: String,
    /// What could happen; empty if all is well.
    pub risk: String,
    /// The setting or the right that mends the fault; empty if all is well.
    pub remedy: String,
}

impl Finding {
    /// The finding that all is well.
    pub fn ok(place: &str, topic: &'static str, found: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            place: place.to_owned(),
            topic,
            found: found.into(),
            risk: String::new(),
            remedy: String::new(),
        }
    }

    /// The finding that a state costs more than it should, or breaks a promise together with
    /// another fault.
    pub fn warning(
        place: &str,
        topic: &'static str,
        found: impl Into<String>,
        risk: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (risk, remedy) = (risk.into(), remedy.into());
        Self { level: Level::Warning, risk, remedy, ..Self::ok(place, topic, found) }
    }

    /// The finding that a state breaks a promise in the course of an ordinary failure.
    pub fn danger(
        place: &str,
        topic: &'static str,
        found: impl Into<String>,
        risk: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Danger, ..Self::warning(place, topic, found, risk, remedy) }
    }
}

/// The place and the topic that several findings have in common.
#[cfg(any(feature = "file", feature = "postgres", feature = "redis"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topic<'a>(pub(crate) &'a str, pub(crate) &'static str);

#[cfg(any(feature = "file", feature = "postgres", feature = "redis"))]
impl Topic<'_> {
    pub(crate) fn ok(self, found: impl Into<String>) -> Finding {
        Finding::ok(self.0, self.1, found)
    }

    pub(crate) fn warning(
        self,
        found: impl Into<String>,
        risk: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding::warning(self.0, self.1, found, risk, remedy)
    }

    pub(crate) fn danger(
        self,
        found: impl Into<String>,
        risk: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding::danger(self.0, self.1, found, risk, remedy)
    }
}

/// One line: the place, the state that was found, the risk, and the remedy.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.found)?;
        for part in [&self.risk, &self.remedy] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}
