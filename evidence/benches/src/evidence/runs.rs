//! The files that runs of the campaign and soaks leave behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::outcome::Outcome;
use crate::soak::Soak;

/// Runs on one topology, added up.
#[derive(Debug, Deserialize)]
pub(super) struct Run {
    pub(super) topology: String,
    pub(super) promised: String,
    pub(super) seconds: f64,
    pub(super) processes_stopped: u64,
    pub(super) processes_killed: u64,
    pub(super) faults: BTreeMap<String, Cost>,
    pub(super) grants: u64,
    pub(super) hand_overs: u64,
    pub(super) updates: u64,
    pub(super) windows: u64,
    pub(super) double_holds: u64,
    pub(super) token_regressions: u64,
    pub(super) lost_updates: u64,
    pub(super) violations: BTreeMap<String, u64>,
}

/// For each fault of one kind: how long it lasted, and how long nobody was granted anything, in ms.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Cost {
    pub(super) lasted_ms: Vec<u64>,
    pub(super) silent_ms: Vec<u64>,
}

/// All runs in a directory.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// By topology.
    pub(super) all: BTreeMap<String, Run>,
    pub(super) soaks: Vec<Soak>,
}

impl Runs {
    pub(super) fn read(directory: &Path) -> Outcome<Self> {
        let mut runs = Self::default();
        let mut files: Vec<_> =
            fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
        files.retain(|file| file.extension().is_some_and(|end| end == "json"));
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file)?;
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("soak-") {
                runs.soaks.push(serde_json::from_str(&text)?);
            } else {
                runs.add(serde_json::from_str(&text)?);
            }
        }
        if runs.all.is_empty() {
            return Err(format!("no runs in {}", directory.display()).into());
        }
        Ok(runs)
    }

    fn add(&mut self, run: Run) {
        match self.all.get_mut(&run.topology) {
            Some(all) => all.merge(run),
            None => drop(self.all.insert(run.topology.clone(), run)),
        }
    }
}

impl Run {
    pub(super) fn fault_count(&self) -> usize {
        self.faults.values().map(|cost| cost.lasted_ms.len()).sum()
    }

    /// The longest time after the beginning of a fault in which nobody was granted anything.
    pub(super) fn longest_silence(&self) -> String {
        let longest_ms = self.faults.values().flat_map(|cost| &cost.silent_ms).max();
        longest_ms.map_or_else(|| "–".to_owned(), |ms| format!("{:.1}", *ms as f64 / 1_000.0))
    }

    fn merge(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.processes_stopped += other.processes_stopped;
        self.processes_killed += other.processes_killed;
        self.grants += other.grants;
        self.hand_overs += other.hand_overs;
        self.updates += other.updates;
        self.windows += other.windows;
        self.double_holds += other.double_holds;
        self.token_regressions += other.token_regressions;
        self.lost_updates += other.lost_updates;
        for (check, count) in other.violations {
            *self.violations.entry(check).or_default() += count;
        }
        for (kind, cost) in other.faults {
            let all = self.faults.entry(kind).or_default();
            all.lasted_ms.extend(cost.lasted_ms);
            all.silent_ms.extend(cost.silent_ms);
        }
    }
}
