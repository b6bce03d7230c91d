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
    /// The check: `reachable`, `version`, `role`, `rights`, `eviction`, `persistence`, `replicas`
    /// or `clock`.
    pub topic: &'static str,
    /// The state that was found.
    pub found: String,
    /// What could happen; empty if all is well.
    pub risk: String,
    /// The setting or the right that mends the fault; empty if all is well.
    pub remedy: String,
}

/// The place and the topic of a finding, which makes it.
#[derive(Clone, Copy, Debug)]
pub struct Topic<'a>(pub &'a str, pub &'static str);

impl Topic<'_> {
    /// The finding that all is well.
    pub fn ok(self, found: impl Into<String>) -> Finding {
        self.finding(Level::Ok, found.into(), "", "")
    }

    /// The finding that a state costs more than it should, or breaks a promise together with
    /// another fault.
    pub fn warning(self, found: impl Into<String>, risk: &str, remedy: &str) -> Finding {
        self.finding(Level::Warning, found.into(), risk, remedy)
    }

    /// The finding that a state breaks a promise in the course of an ordinary failure.
    pub fn danger(self, found: impl Into<String>, risk: &str, remedy: &str) -> Finding {
        self.finding(Level::Danger, found.into(), risk, remedy)
    }

    fn finding(self, level: Level, found: String, risk: &str, remedy: &str) -> Finding {
        let (place, topic) = (self.0.to_owned(), self.1);
        Finding { level, place, topic, found, risk: risk.to_owned(), remedy: remedy.to_owned() }
    }
}

/// One line: the place, the state that was found, the risk, and the remedy.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.found)?;
        let mut said = [&self.risk, &self.remedy].into_iter().filter(|part| !part.is_empty());
        said.try_for_each(|part| write!(f, ": {part}"))
    }
}
