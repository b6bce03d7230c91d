//! Warnings about faults that weaken a promise, each of them once.

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

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}
