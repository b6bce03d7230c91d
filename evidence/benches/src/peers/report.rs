//! The output of a peer's program, the same in every language.

use serde::{Deserialize, Serialize};

use crate::peers::histogram::Histogram;

/// The output of one process at its end.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Report {
    /// How often each task had the lock.
    pub(super) entries: Vec<usize>,
    /// How long each acquisition took.
    pub(super) waits: Histogram,
    pub(super) longest_us: f64,
    pub(super) rss_kib: u64,
}
