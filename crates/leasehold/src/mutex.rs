//! A mutex that cannot be poisoned: the guarded value is sound after every statement, so a panic in
//! one thread is no reason to panic in the others.

#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError};

use crate::sync;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    #[cfg(test)]
    locked: AtomicUsize,
    inner: sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            #[cfg(test)]
            locked: AtomicUsize::new(0),
            inner: sync::Mutex::new(value),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(test)]
        self.locked.fetch_add(1, Ordering::Relaxed);
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of times that this mutex was locked.
    #[cfg(test)]
    pub(crate) fn locked(&self) -> usize {
        self.locked.load(Ordering::Relaxed)
    }
}
