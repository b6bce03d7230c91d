//! The result of a run, in the form of the file for reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_testkit::must;
use serde::Serialize;

use crate::judge::{CHECKS, Unavailable, Verdict};

/// The result of a run on one topology. All its rounds are added up.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) topology: String,
    /// Whether exclusion was promised under the faults of the place, or only the order of tokens.
    pub(crate) promised: &'static str,
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
    pub(crate) windows: u64,
    pub(crate) double_holds: u64,
    pub(crate) token_regressions: u64,
    pub(crate) lost_updates: u64,
    /// How often each check failed; every check is listed.
    pub(crate) violations: BTreeMap<String, u64>,
    pub(crate) events: BTreeMap<String, u64>,
}

impl Outcome {
    pub(crate) fn new(topology: &str, promised: &'static str, seed: u64) -> Self {
        Self {
            topology: topology.to_owned(),
            promised,
            seed,
            server: String::new(),
            at: 0,
            seconds: 0.0,
            rounds: 0,
            stalled_seconds: 0.0,
            processes_stopped: 0,
            processes_killed: 0,
            faults: Unavailable::default(),
            grants: 0,
            hand_overs: 0,
            adopts: 0,
            updates: 0,
            windows: 0,
            double_holds: 0,
            token_regressions: 0,
            lost_updates: 0,
            violations: CHECKS.iter().map(|check| ((*check).to_owned(), 0)).collect(),
            events: BTreeMap::new(),
        }
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, verdict: &Verdict) {
        self.rounds += 1;
        self.stalled_seconds += verdict.stalled.as_secs_f64();
        self.faults.merge(&verdict.unavailable);
        self.grants += verdict.grants;
        self.hand_overs += verdict.hand_overs;
        self.adopts += verdict.adopts;
        self.updates += verdict.updates;
        self.windows += verdict.windows;
        self.double_holds += verdict.double_holds();
        self.token_regressions += verdict.token_regressions();
        self.lost_updates += verdict.lost_updates;
        for (check, count) in &verdict.violations {
            *self.violations.entry((*check).to_owned()).or_default() += count;
        }
        for (event, count) in &verdict.events {
            *self.events.entry(event.clone()).or_default() += count;
        }
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
            self.double_holds,
            self.token_regressions,
            self.lost_updates,
        )
    }

    /// Writes the result into a directory of runs, under a new name.
    pub(crate) fn write(&mut self, directory: &Path, took: Duration) -> PathBuf {
        self.seconds = took.as_secs_f64();
        self.at = must(SystemTime::now().duration_since(UNIX_EPOCH)).as_secs();
        must(fs::create_dir_all(directory));
        let file = directory.join(format!("{}-{}-{}.json", self.topology, self.at, self.seed));
        must(fs::write(&file, must(serde_json::to_string(self))));
        file
    }
}
