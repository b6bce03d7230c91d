//! What an examination of a store finds.

use std::fmt;

/// What a finding means for the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// A promise breaks in the course of an ordinary failure, or nothing can be locked at all.
    Danger,
    /// As it should be.
    Ok,
    /// It costs something, or breaks a promise together with something else.
    Warning,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The server or the file.
    pub place: String,
    /// What was looked at, in a word: `persistence`.
    pub topic: &'static str,
    /// What was found.
    pub found: String,
    /// What could happen; empty if all is well.
    pub risk: String,
    /// The setting or the right that mends it; empty if all is well.
    pub remedy: String,
}

impl Finding {
    /// It is as it should be.
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

    /// It costs something, or breaks a promise together with something else.
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

    /// It breaks a promise in the course of an ordinary failure.
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

/// What is looked at, and where: what its findings have in common.
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

/// One line: the place, what was found there, what could happen, what mends it.
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
