//! The page with the figures of all runs that were kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use leasehold_testkit::{Table, must};

use crate::judge::Outcome;

const HEADS: &str = "topology | promised | minutes | grants | hand-overs | updates | windows | \
    faults | longest silence, s | stopped | killed | double holds | lower tokens | lost updates | \
    all checks that failed";

/// Adds up the runs in a directory, by topology, and writes the page.
pub(crate) fn write(runs: &Path, page: &Path) {
    let mut all: BTreeMap<String, Outcome> = BTreeMap::new();
    for file in must(fs::read_dir(runs)).map(|entry| must(entry).path()) {
        if file.extension().is_some_and(|end| end == "json") {
            let run: Outcome = must(serde_json::from_str(&must(fs::read_to_string(file))));
            let new = || Outcome::new(&run.topology, run.promised, run.seed);
            all.entry(run.topology.clone()).or_insert_with(new).merge(&run);
        }
    }
    assert!(!all.is_empty(), "no runs in {}", runs.display());
    let heads: Vec<&str> = HEADS.split(" | ").collect();
    let mut table = Table::new("What was done with leasehold", &heads);
    all.into_values().for_each(|run| table.row(cells(run)));
    let text = format!(
        "# The figures of the campaign\n\nMade of the runs that were kept. \
         [README.md](README.md) says what they mean.\n\n{table}"
    );
    must(fs::write(page, text));
}

fn cells(run: Outcome) -> [String; 15] {
    let silences_ms = run.faults.0.values().flat_map(|cost| &cost.silent_ms);
    let silence = silences_ms.max().map(|ms| format!("{:.1}", *ms as f64 / 1_000.0));
    let failed = run.violations.iter().filter(|(_, count)| **count > 0);
    let failed: Vec<_> = failed.map(|(check, count)| format!("{check} {count}")).collect();
    let none = || "–".to_owned();
    [
        run.topology.clone(),
        format!("{:?}", run.promised).to_lowercase(),
        format!("{:.1}", run.seconds / 60.0),
        run.grants.to_string(),
        run.hand_overs.to_string(),
        run.updates.to_string(),
        run.windows.to_string(),
        run.faults.count().to_string(),
        silence.unwrap_or_else(none),
        run.processes_stopped.to_string(),
        run.processes_killed.to_string(),
        run.double_holds().to_string(),
        run.token_regressions().to_string(),
        run.lost_updates.to_string(),
        if failed.is_empty() { none() } else { failed.join(", ") },
    ]
}
