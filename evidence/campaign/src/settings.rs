//! What a run is told by its environment.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_testkit::must;

/// How long a run is, as a span: `LEASEHOLD_CAMPAIGN=2m`.
const SPAN: &str = "LEASEHOLD_CAMPAIGN";

/// What all its choices are drawn from.
const SEED: &str = "LEASEHOLD_CAMPAIGN_SEED";

/// A directory, where what came of it is kept.
const RUNS: &str = "LEASEHOLD_CAMPAIGN_RUNS";

/// Where nothing else is said: enough for what was found so far to be found again.
const SHORT: Duration = Duration::from_secs(10);

/// What all choices of a run are drawn from where nothing else is said; when they meet which moment
/// is up to the machine.
const FIXED: u64 = 0x1ea5e;

/// What a run is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) span: Duration,
    pub(crate) seed: u64,
    pub(crate) runs: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn read() -> Self {
        let parse = |span: String| must(leasehold::time::parse_duration(&span));
        Self {
            span: env::var(SPAN).map_or(SHORT, parse),
            seed: env::var(SEED).map_or(FIXED, |seed| must(seed.parse())),
            runs: env::var_os(RUNS).map(PathBuf::from),
        }
    }
}
