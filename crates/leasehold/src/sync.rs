//! What threads share is made of these: the mutex and the atomics of the standard library.
//!
//! In the tests of this crate they are chosen here, and nowhere else: there every lock and every
//! operation on an atomic is a point at which a test that explores schedules decides which thread
//! goes on. See `schedules`.

#[cfg(not(test))]
pub(crate) use std::sync::Mutex;
#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

#[cfg(test)]
pub(crate) use self::explored::{AtomicBool, AtomicU64, AtomicUsize, Mutex};

#[cfg(test)]
pub(crate) mod explored;
