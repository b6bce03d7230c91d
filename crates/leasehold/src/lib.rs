//! Distributed locks.
#![forbid(unsafe_code)]

pub mod clock;
pub mod store;

pub use leasehold_core::{Error, Result};
