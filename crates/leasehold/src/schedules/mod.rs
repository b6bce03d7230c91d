//! Tests of the state that threads share, under a scheduler that decides which thread runs next:
//! the loss signal, a guard's last drop, re-entry during a release, the keeper's table, the line.
//!
//! The code is the library's own, down to its mutexes and atomics ([`crate::sync`]), on a store in
//! memory whose requests can be interrupted. For each scenario, two hundred schedules are tried.
//! Half of them are drawn at random; the others follow priorities that change a few times (PCT).
//! The seeds of the scheduler are fixed. The ids of clients and the keeper's jitter are not, so it
//! may take more than one run to repeat a failure.

mod guard;
mod line;
mod signal;
mod world;
