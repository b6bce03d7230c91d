//! The mutex and the atomics for state that threads share: those of the standard library.
//!
//! In the tests of this crate, this module replaces them. There, each lock and each operation on an
//! atomic is a point at which a test that explores schedules decides which thread runs next. See
//! `schedules`.

#[cfg(not(test))]
pub(crate) use std::sync::Mutex;
#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};

#[cfg(test)]
pub(crate) use self::explored::{AtomicU64, AtomicUsize, Mutex};

#[cfg(test)]
pub(crate) mod explored;
