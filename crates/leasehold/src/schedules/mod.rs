//! What threads share, in the order in which a scheduler lets them go on: the loss signal, a
//! guard's last drop, re-entry beside release, the keeper's table, the line.
//!
//! The code is the library's own, down to its mutexes and atomics ([`crate::sync`]), on a store in
//! memory whose requests take their time. Of the schedules of a scenario two hundred are tried:
//! half of them drawn at random, the others by priorities that change a few times (PCT). The seeds
//! of the scheduler are fixed; ids of clients and the keeper's jitter are not, so a failure may
//! take more than one run to come again.

mod guard;
mod line;
mod signal;
mod world;
