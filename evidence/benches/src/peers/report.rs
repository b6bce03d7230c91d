//! What the program of a peer prints, in whatever language it is written.

use serde::{Deserialize, Serialize};

use crate::peers::histogram::Histogram;

/// What one process prints when it has ended.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Report {
    /// How often each task had the lock.
    pub(super) entries: Vec<usize>,
    /// How long each time took, from asking to having it.
    pub(super) waits: Histogram,
    pub(super) longest_us: f64,
    pub(super) rss_kib: u64,
}
