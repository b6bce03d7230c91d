//! The present work of a task, and the last events of its client: they are printed if the task does
//! not end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use leasehold::event::{Event, Observer};

/// The work of one task, and since when; `None` once it has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing(Arc<Mutex<Option<(Instant, String)>>>);

impl Doing {
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

const REMEMBERED: usize = 200;

/// The last events of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Mutex<VecDeque<(Instant, String)>>>);

impl Trace {
    /// The last events, the newest last, each with its age.
    pub(crate) fn lines(&self) -> Vec<String> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().map(|(at, what)| format!("{:.3?} ago: {what}", at.elapsed())).collect()
    }
}

impl Observer for Trace {
    fn observe(&self, event: &Event<'_>) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() == REMEMBERED {
            events.pop_front();
        }
        events.push_back((Instant::now(), format!("{event:?}")));
    }
}
