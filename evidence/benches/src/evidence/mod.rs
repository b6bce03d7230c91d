//! The report on the campaign: tables of the runs that were kept.

mod runs;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use self::runs::{Run, Runs};
use crate::outcome::Outcome;
use crate::table::Table;

/// Reads the runs in a directory, and writes a page of tables into another.
pub(crate) fn run(runs: &Path, evidence: &Path) -> Outcome {
    let runs = Runs::read(runs)?;
    fs::create_dir_all(evidence)?;
    let mut text = String::from(
        "# The figures of the campaign\n\nMade of the runs that were kept. \
         [README.md](README.md) says what they mean.\n\n",
    );
    writeln!(text, "{}", what_was_done(&runs))?;
    for soak in &runs.soaks {
        writeln!(text, "{}", soak.table())?;
    }
    fs::write(evidence.join("campaign.md"), text.trim_end().to_owned() + "\n")?;
    Ok(())
}

fn what_was_done(runs: &Runs) -> Table {
    let heads = "topology | promised | minutes | grants | hand-overs | updates | windows | \
         faults | longest silence, s | stopped | killed | double holds | lower tokens | \
         lost updates | all checks that failed";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new("What was done with leasehold", &heads);
    for run in runs.all.values() {
        table.row([
            run.topology.clone(),
            run.promised.clone(),
            format!("{:.1}", run.seconds / 60.0),
            run.grants.to_string(),
            run.hand_overs.to_string(),
            run.updates.to_string(),
            run.windows.to_string(),
            run.fault_count().to_string(),
            run.longest_silence(),
            run.processes_stopped.to_string(),
            run.processes_killed.to_string(),
            run.double_holds.to_string(),
            run.token_regressions.to_string(),
            run.lost_updates.to_string(),
            failed(run),
        ]);
    }
    table
}

/// The checks that failed, and how often.
fn failed(run: &Run) -> String {
    let failed = run.violations.iter().filter(|(_, count)| **count > 0);
    let failed: Vec<_> = failed.map(|(check, count)| format!("{check} {count}")).collect();
    if failed.is_empty() { "–".to_owned() } else { failed.join(", ") }
}
