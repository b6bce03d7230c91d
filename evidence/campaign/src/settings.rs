//! The settings of a run, from its environment.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_testkit::must;

/// The length of a run, as a span: `LEASEHOLD_CAMPAIGN=2m`.
const SPAN: &str = "LEASEHOLD_CAMPAIGN";

const SEED: &str = "LEASEHOLD_CAMPAIGN_SEED";

/// A directory for the results.
const RUNS: &str = "LEASEHOLD_CAMPAIGN_RUNS";

/// The default length: enough to find earlier bugs again.
const SHORT: Duration = Duration::from_secs(10);

/// The default seed of all choices of a run; the machine decides at which moments they happen.
const FIXED: u64 = 0x1ea5e;

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
