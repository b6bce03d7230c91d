//! What a task does right now: asked when it does not come to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What one task does, and since when; nothing once it has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing(Arc<Mutex<Option<(Instant, String)>>>);

impl Doing {
    /// From now on it does this.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        *self.what() = Some((Instant::now(), what.into()));
    }

    pub(crate) fn end(&self) {
        *self.what() = None;
    }

    pub(crate) fn now(&self) -> Option<String> {
        let what = self.what();
        what.as_ref().map(|(since, what)| format!("{what}, for {:.1?}", since.elapsed()))
    }

    fn what(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
