//! The result of a run, in the form of the file for reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_testkit::must;
use serde::{Deserialize, Serialize};

use super::unavailability::Unavailable;
use crate::topology::Promised;

/// The checks, by their numbers. `holds`: a lone holder has a higher token than all ended holds.
/// `jobs`: a job that has reported its end is not started again in its period. `leader`: nobody
/// learns of a leader that was replaced before. `numbers`: none is given twice. `stock`:
/// deliveries less orders are left. `updates`: reading and writing is one step.
pub(crate) const CHECKS: [&str; 18] = [
    "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12", "holds", "jobs",
    "leader", "numbers", "stock", "updates",
];

/// The checks that fail only if two hold at the same time.
pub(crate) const OF_EXCLUSION: [&str; 3] = ["I4", "I9", "holds"];

/// The result of a run on one topology, or of several. All rounds are added up.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Outcome {
    pub(crate) topology: String,
    pub(crate) promised: Promised,
    pub(crate) seed: u64,
    pub(crate) server: String,
    /// Seconds since 1970 at the end.
    pub(crate) at: u64,
    pub(crate) seconds: f64,
    pub(crate) rounds: u64,
    /// How long processes or servers ran late, although nobody had stopped them.
    pub(crate) stalled_seconds: f64,
    pub(crate) processes_stopped: u64,
    pub(crate) processes_killed: u64,
    pub(crate) faults: Unavailable,
    pub(crate) grants: u64,
    pub(crate) hand_overs: u64,
    pub(crate) adopts: u64,
    pub(crate) updates: u64,
    /// Windows of updates that were searched for an order.
    pub(crate) windows: u64,
    pub(crate) lost_updates: u64,
    /// How often each check failed; every check is listed.
    pub(crate) violations: BTreeMap<String, u64>,
    pub(crate) events: BTreeMap<String, u64>,
}

impl Outcome {
    pub(crate) fn new(topology: &str, promised: Promised, seed: u64) -> Self {
        let topology = topology.to_owned();
        let violations = CHECKS.iter().map(|check| ((*check).to_owned(), 0)).collect();
        Self { topology, promised, seed, violations, ..Self::default() }
    }

    /// Adds what another result has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.rounds += other.rounds;
        self.stalled_seconds += other.stalled_seconds;
        self.processes_stopped += other.processes_stopped;
        self.processes_killed += other.processes_killed;
        self.faults.merge(&other.faults);
        self.grants += other.grants;
        self.hand_overs += other.hand_overs;
        self.adopts += other.adopts;
        self.updates += other.updates;
        self.windows += other.windows;
        self.lost_updates += other.lost_updates;
        for (mine, theirs) in
            [(&mut self.violations, &other.violations), (&mut self.events, &other.events)]
        {
            theirs.iter().for_each(|(what, count)| *mine.entry(what.clone()).or_default() += count);
        }
    }

    /// How often two held at the same time.
    pub(crate) fn double_holds(&self) -> u64 {
        self.failed(&["I4", "I9"])
    }

    /// How often a token was no higher than an earlier token.
    pub(crate) fn token_regressions(&self) -> u64 {
        self.failed(&["I1", "I2", "I3"])
    }

    fn failed(&self, checks: &[&str]) -> u64 {
        checks.iter().filter_map(|check| self.violations.get(*check)).sum()
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}: {:.0} s, {:.0} of them stalled, seed {}: {} grants, {} hand-overs, \
             {} updates, {} adopts; {} faults, {} processes stopped, {} killed; \
             {} double holds, {} token regressions, {} lost updates",
            self.topology,
            self.seconds,
            self.stalled_seconds,
            self.seed,
            self.grants,
            self.hand_overs,
            self.updates,
            self.adopts,
            self.faults.count(),
            self.processes_stopped,
            self.processes_killed,
            self.double_holds(),
            self.token_regressions(),
            self.lost_updates,
        )
    }

    /// Writes the result into a directory of runs, under a new name.
    pub(crate) fn write(&mut self, directory: &Path, took: Duration) {
        self.seconds = took.as_secs_f64();
        self.at = must(SystemTime::now().duration_since(UNIX_EPOCH)).as_secs();
        must(fs::create_dir_all(directory));
        let file = directory.join(format!("{}-{}-{}.json", self.topology, self.at, self.seed));
        must(fs::write(file, must(serde_json::to_string(self))));
    }
}
