//! What a program asks of a file store: [`FileOptions`], over which URLs are read, too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::model::Rules;

use super::rules::RULES;
use crate::store::span::{self, RETENTIONS};

/// Where a file store is and how it is used: all that a store URL can say, as values. A path alone
/// stands for the rest as usual.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use leasehold::store::{File, FileOptions};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = File::open(
///     FileOptions::new("/srv/jobs/locks.db").retention(Duration::from_secs(3600)),
/// )?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct FileOptions {
    pub(super) path: PathBuf,
    retention: Duration,
}

impl FileOptions {
    /// The database at this path: `file:PATH`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), retention: RULES.retention }
    }

    /// How long the record of a name is kept after its last use, with its last holder: 2 min by
    /// default, 1 s to 24 h. A restart of the machine ends it sooner.
    pub fn retention(mut self, span: Duration) -> Self {
        self.retention = span;
        self
    }

    /// What steps keep to, if it can be.
    pub(super) fn rules(&self) -> Result<Rules, InvalidInput> {
        span::check("retention", self.retention, RETENTIONS)?;
        Ok(RULES.with_retention(self.retention))
    }
}

impl<P: AsRef<Path>> From<P> for FileOptions {
    fn from(path: P) -> Self {
        Self::new(path.as_ref())
    }
}
