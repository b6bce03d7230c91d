//! leasehold compared with the locks that people use today. Each is a program in its language,
//! written as its documentation recommends. `peers/README.md` describes the arguments.

mod histogram;
mod ours;
mod programs;
mod report;
mod row;
mod trial;

use std::path::Path;

use leasehold_testkit::Table;

pub(crate) use self::ours::{PEER, run as run_ours};
use self::programs::Programs;
use self::row::{ROWS, Row, Want};
use self::trial::{Trial, Trials};
use crate::measure::{jain, number, span};
use crate::outcome::Outcome;

/// How often each row is measured, the peers in turns. The best round of each counts, because the
/// machine makes the others worse.
const ROUNDS: usize = 2;

/// Prints the properties of all peers and a table for each row.
pub(crate) fn run() -> Outcome {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = Programs::build(&benches.join("peers"))?;
    println!("{}", properties(&programs));
    for row in ROWS {
        println!("{}", table(row, &measure(&programs, row)?));
    }
    Ok(())
}

fn measure(programs: &Programs, row: Row) -> Outcome<Trials> {
    let mut trials = Trials::new();
    for _ in 0..ROUNDS {
        for (at, peer) in programs::PEERS.iter().enumerate() {
            if programs.missing(peer).is_some() || (peer.only_alone && row.want == Want::Hot) {
                continue;
            }
            let trial = trial::run(programs, peer, row)?;
            let known = trials.remove(&at).map(|(_, known)| known);
            trials.insert(at, (peer, better(known, trial)));
        }
    }
    Ok(trials)
}

fn better(
    known: Option<Result<Trial, String>>,
    new: Result<Trial, String>,
) -> Result<Trial, String> {
    match (known, new) {
        (Some(Ok(known)), Ok(new)) if known.rate() < new.rate() => Ok(new),
        (Some(Ok(known)), _) => Ok(known),
        (_, new) => new,
    }
}

fn properties(programs: &Programs) -> Table {
    let heads = ["", "version", "FIFO", "tokens", "renewal", "loss signal", "left out"];
    let mut table = Table::new("Peers, with what was switched on", &heads);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for peer in &programs::PEERS {
        table.row([
            peer.name.to_owned(),
            peer.version.to_owned(),
            yes(peer.fifo),
            yes(peer.tokens),
            yes(peer.renewal),
            yes(peer.loss_signal),
            programs.missing(peer).unwrap_or_default().to_owned(),
        ]);
    }
    table
}

fn table(row: Row, trials: &Trials) -> Table {
    let heads = " | entries/s | wait p50 | p99 | longest | Jain, tasks | Jain, processes | \
         commands/entry | server µs/entry | client MiB";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new(&row.title(), &heads);
    for (peer, trial) in trials.values() {
        let trial = match trial {
            Ok(trial) => trial,
            Err(why) => {
                table.row([format!("{} ({why})", peer.name)]);
                continue;
            }
        };
        let entries = trial.entries() as f64;
        table.row([
            peer.name.to_owned(),
            number(trial.rate()),
            span(trial.waits.quantile(0.5)),
            span(trial.waits.quantile(0.99)),
            span(trial.longest),
            format!("{:.4}", jain(&trial.of_tasks())),
            format!("{:.4}", jain(&trial.of_processes())),
            number(trial.done.commands as f64 / entries),
            number(trial.done.cpu.as_secs_f64() * 1e6 / entries),
            number(trial.rss_kib as f64 / 1024.0),
        ]);
    }
    table
}
