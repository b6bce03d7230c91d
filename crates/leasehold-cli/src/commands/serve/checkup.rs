//! What the doctor finds.

use crate::commands::doctor;
use crate::store_url::StoreUrl;

/// What was found, and when.
#[derive(Debug)]
pub(super) struct Checkup {
    /// As `doctor --json` prints it.
    pub(super) report: serde_json::Value,
    pub(super) dangers: usize,
    pub(super) warnings: usize,
}

impl Checkup {
    /// Examines the store.
    pub(super) async fn of(url: &StoreUrl) -> Self {
        let (report, dangers, warnings) = doctor::report(url).await;
        Self { report, dangers, warnings }
    }
}
