//! `cargo xtask mutants`: whether the tests find the mistakes that they are there for.
//!
//! Some are named (`crates/leasehold-core/src/bugs.rs`): each is switched on, and the tests must
//! fail that [`table`] lists for it. With `core`, cargo-mutants thinks of hundreds more.

mod named;
mod programs;
mod switched;
mod table;
mod trial;
mod unnamed;

pub(crate) use self::named::{Extent, run};
pub(crate) use self::unnamed::run as core;
