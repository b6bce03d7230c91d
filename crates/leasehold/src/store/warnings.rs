//! Warnings about faults that weaken a promise, each of them once.

use super::finding::{Finding, Level};
use crate::mutex::Mutex;

/// The warnings of one store.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub(crate) fn add(&self, warning: String) {
        let mut warnings = self.0.lock();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Adds those of some findings that are about trouble.
    pub(crate) fn add_trouble(&self, findings: impl IntoIterator<Item = Finding>) {
        let troubles = findings.into_iter().filter(|finding| finding.level != Level::Ok);
        troubles.for_each(|finding| self.add(finding.to_string()));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}
