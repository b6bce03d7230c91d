//! A hundred thousand clients on a cluster of a hundred servers, simulated: their requests, how
//! soon they are served, and the effects of a failover and of a restart of a tenth of the clients.
//!
//! `LEASEHOLD_FLEET=N` plays N clients, on a server for each thousand.

mod plot;

use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_testkit::fleet::{Counts, Plan, Report, Weather, play};

use crate::measure::number;
use crate::outcome::Outcome;
use crate::process;
use crate::table::Table;

/// How many clients, unless the environment says otherwise.
const CLIENTS: usize = 100_000;

/// How many clients share a server.
const CLIENTS_PER_NODE: usize = 1_000;

/// Plays the fleet, prints its tables, and draws the requests to two of its servers.
pub(crate) fn run() -> Outcome {
    let asked = std::env::var("LEASEHOLD_FLEET").ok();
    let clients = asked.map_or(Ok(CLIENTS), |number| number.parse())?;
    let plan = plan(clients);
    let (before, began) = (process::memory()?, Instant::now());
    let report = play(plan)?;
    let (took, peak) = (began.elapsed(), process::peak_memory_kib()? * 1024);
    let memory = peak.saturating_sub(before);
    print(&plan, &report);
    plot::draw(&plan, &report, &Path::new(env!("CARGO_MANIFEST_DIR")).join("plots/fleet.svg"))?;
    println!(
        "{:.0} s of the fleet's time were played in {:.0} s, with {:.1} GiB: {:.1} KiB a client.\n",
        report.took.as_secs_f64(),
        took.as_secs_f64(),
        memory as f64 / (1_u64 << 30) as f64,
        memory as f64 / 1024.0 / clients as f64,
    );
    Ok(())
}

fn plan(clients: usize) -> Plan {
    let seconds = Duration::from_secs;
    Plan {
        clients,
        nodes: (clients / CLIENTS_PER_NODE).max(3),
        names: clients / 2,
        ttl: seconds(30),
        thinks: seconds(40),
        holds: seconds(2),
        holds_long: seconds(60),
        calm: seconds(60),
        outage: seconds(6),
        after: seconds(45),
        weather: Weather { lost_requests: 20, lost_messages: 1_000, lag: Duration::from_millis(5) },
        seed: 1,
    }
}

/// One kind of counted requests.
type Count = fn(Counts) -> u64;

fn print(plan: &Plan, report: &Report) {
    let (counts, lasted) = report.calm;
    let title = format!("Fleet: {} clients, {} servers, simulated", plan.clients, plan.nodes);
    let heads = ["in the calm", "per server and second", "by the formula"];
    let mut table = Table::new(&title, &heads);
    let rate = |count: u64| count as f64 / lasted.as_secs_f64() / plan.nodes as f64;
    let rates = rates(plan, report);
    let rows: [(&str, Count, Option<f64>); 6] = [
        ("all commands", |counts| counts.commands(), None),
        ("acquires", |counts| counts.acquires, None),
        ("releases", |counts| counts.releases, None),
        ("polls", |counts| counts.polls, Some(rates.polls)),
        ("leases renewed", |counts| counts.leases, Some(rates.leases)),
        ("its own messages", |counts| counts.messages, None),
    ];
    for (what, count, formula) in rows {
        let formula = formula.map_or_else(|| "–".to_owned(), number);
        table.row([what.to_owned(), number(rate(count(counts))), formula]);
    }
    table.row(["messages of all".to_owned(), number(rates.bus), "–".to_owned()]);
    println!("{table}");

    let mut table = Table::new(&title, &["", ""]);
    let span = |span: Duration| format!("{span:.3?}");
    let failover = report.failover;
    let per_client = |count: u32| f64::from(count) / failover.clients.max(1) as f64;
    for (what, figure) in [
        ("leases entered", report.entered.to_string()),
        ("held on average", number(report.holders)),
        ("waiting on average", number(report.waiters)),
        ("busiest server", format!("{:.2} %", report.busiest * 100.0)),
        ("hand-over, median", span(report.hand_over(500))),
        ("hand-over, p99", span(report.hand_over(990))),
        ("hand-over, longest", span(report.hand_over(1000))),
        ("longest wait", span(report.longest_wait)),
        ("longest idle after a kill or failover", span(report.longest_idle)),
        ("commands/s of the failing server before, at most", failover.commands_before.to_string()),
        ("… after a replica took over, at most", failover.commands_after.to_string()),
        ("… per client that held or waited there", number(per_client(failover.commands_after))),
        ("dials/s from the failure on, at most", failover.dials.to_string()),
        ("locks of which the replica missed something", failover.missed.to_string()),
        ("entered beside somebody", report.double_holds.to_string()),
        ("tokens that went back", report.tokens_back.to_string()),
        ("not served, errors", format!("{}, {}", report.unserved, report.errors)),
    ] {
        table.row([what.to_owned(), figure]);
    }
    println!("{table}");
}

/// The results of the formulae of `docs/sizing.md` for each server.
struct Rates {
    polls: f64,
    leases: f64,
    bus: f64,
}

fn rates(plan: &Plan, report: &Report) -> Rates {
    let nodes = plan.nodes as f64;
    Rates {
        polls: report.waiters / nodes,
        leases: report.holders / (plan.ttl.as_secs_f64() / 3.0) / nodes,
        bus: report.bus_messages as f64 / report.calm.1.as_secs_f64(),
    }
}
