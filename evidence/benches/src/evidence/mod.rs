//! The report on the campaign: tables and pictures of the runs that were kept.

mod plot;
mod runs;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use self::runs::{Run, Runs, quantile};
use crate::outcome::Outcome;
use crate::table::Table;

/// Reads the runs in a directory, and writes tables and pictures into another.
pub(crate) fn run(runs: &Path, evidence: &Path) -> Outcome {
    let runs = Runs::read(runs)?;
    fs::create_dir_all(evidence)?;
    let mut text = String::from(
        "# The figures of the campaign\n\nMade of the runs that were kept. \
         [README.md](README.md) says what they mean.\n\n",
    );
    for table in [what_was_done(&runs), what_was_broken(&runs), beside(&runs), faults(&runs)] {
        writeln!(text, "{table}")?;
    }
    writeln!(text, "{}\n![longest silence](silence.svg)\n", unavailability(&runs))?;
    for (at, soak) in runs.soaks.iter().enumerate() {
        plot::soak(soak, &evidence.join(format!("soak-{}.svg", at + 1)))?;
        writeln!(text, "{}\n![soak](soak-{}.svg)\n", soak.table(), at + 1)?;
    }
    plot::silence(&runs, &evidence.join("silence.svg"))?;
    fs::write(evidence.join("campaign.md"), text.trim_end().to_owned() + "\n")?;
    Ok(())
}

fn what_was_done(runs: &Runs) -> Table {
    let heads = [
        "topology",
        "promised",
        "minutes",
        "runs",
        "grants",
        "hand-overs",
        "updates",
        "windows",
        "faults",
        "stopped",
        "killed",
    ];
    let mut table = Table::new("What was done with leasehold", &heads);
    for run in runs.ours() {
        table.row([
            run.topology.clone(),
            run.promised.clone(),
            minutes(run),
            run.runs.to_string(),
            run.grants.to_string(),
            run.hand_overs.to_string(),
            run.updates.to_string(),
            run.windows.to_string(),
            run.fault_count().to_string(),
            run.processes_stopped.to_string(),
            run.processes_killed.to_string(),
        ]);
    }
    table
}

fn what_was_broken(runs: &Runs) -> Table {
    let checks: BTreeSet<&String> = runs.ours().flat_map(|run| run.violations.keys()).collect();
    let mut heads = vec!["topology", "double holds", "token regressions", "lost updates"];
    heads.extend(checks.iter().map(|check| check.as_str()));
    let mut table = Table::new("How often each check failed", &heads);
    for run in runs.ours() {
        let mut row = vec![
            run.topology.clone(),
            run.double_holds.to_string(),
            run.token_regressions.to_string(),
            run.lost_updates.to_string(),
        ];
        let count = |check: &&String| run.violations.get(*check).copied().unwrap_or(0);
        row.extend(checks.iter().map(|check| count(check).to_string()));
        table.row(row);
    }
    table
}

/// Other locks under the same faults, and leasehold's.
fn beside(runs: &Runs) -> Table {
    let heads = [
        "place",
        "lock",
        "minutes",
        "grants",
        "faults",
        "stopped",
        "killed",
        "double holds",
        "lost updates",
    ];
    let mut table = Table::new("The same nemesis, other locks", &heads);
    let places: BTreeSet<&String> = runs.controls().map(|run| &run.topology).collect();
    for run in runs.all.values().filter(|run| places.contains(&run.topology)) {
        table.row([
            run.topology.clone(),
            run.lock.clone(),
            minutes(run),
            run.grants.to_string(),
            run.fault_count().to_string(),
            run.processes_stopped.to_string(),
            run.processes_killed.to_string(),
            run.double_holds.to_string(),
            run.lost_updates.to_string(),
        ]);
    }
    table
}

/// Which faults happened in which places, and how often.
fn faults(runs: &Runs) -> Table {
    let ours: Vec<&Run> = runs.ours().filter(|run| !run.faults.is_empty()).collect();
    let kinds: BTreeSet<&String> = ours.iter().flat_map(|run| run.faults.keys()).collect();
    let mut heads = vec!["fault"];
    heads.extend(ours.iter().map(|run| run.topology.as_str()));
    let mut table = Table::new("Faults by kind and topology", &heads);
    for kind in kinds {
        let count = |run: &&Run| match run.faults.get(kind) {
            Some(cost) => cost.lasted_ms.len().to_string(),
            None => "–".to_owned(),
        };
        table.row([kind.clone()].into_iter().chain(ours.iter().map(count)));
    }
    table
}

/// The cost of each kind of fault.
fn unavailability(runs: &Runs) -> Table {
    let heads = [
        "topology: fault",
        "times",
        "lasted, longest",
        "nobody granted: p99",
        "longest",
        "served after it: p99",
        "longest",
    ];
    let mut table = Table::new("Unavailability, ms", &heads);
    for run in runs.ours() {
        for (kind, cost) in &run.faults {
            table.row([
                format!("{}: {kind}", run.topology),
                cost.lasted_ms.len().to_string(),
                quantile(&cost.lasted_ms, 1.0).to_string(),
                quantile(&cost.silent_ms, 0.99).to_string(),
                quantile(&cost.silent_ms, 1.0).to_string(),
                quantile(&cost.served_ms, 0.99).to_string(),
                quantile(&cost.served_ms, 1.0).to_string(),
            ]);
        }
    }
    table
}

fn minutes(run: &Run) -> String {
    format!("{:.1}", run.seconds / 60.0)
}
