//! Distributed locks.
