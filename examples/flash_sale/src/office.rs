//! The main process: starts the workers, watches them, and checks the result.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_testkit::RedisServer;

use crate::check::{Report, check};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::sale::{LINE_BYTES, PROCESSES, PRODUCTS, USERS, Way, mix, units};
use crate::ways::Counter;
use crate::worker::{Shift, decisions};

/// How often the main process looks at the workers.
const LOOK: Duration = Duration::from_millis(20);

/// How often progress is shown: on a terminal, and elsewhere.
const SHOW: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Columns of the longest bar.
const BAR: f64 = 40.0;

/// The figures of one way.
struct Row {
    way: Way,
    per_second: f64,
    report: Report,
}

/// Runs the sale in all requested ways, and returns whether all checks passed.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    let directory = tempfile::Builder::new().prefix("flash-sale-").tempdir()?;
    let (store, _server) = open_store(options)?;
    let orders = options.orders;
    println!(
        "flash sale: {orders} orders of {USERS} users for {PRODUCTS} products with {} units each, \
         by {PROCESSES} processes",
        units(orders),
    );
    println!("store: {}\n", hide_password(&store));
    let mut rows = Vec::new();
    for way in &options.ways {
        let row = run_way(options, *way, &store, directory.path())?;
        show_row(&row);
        rows.push(row);
    }
    chart(&rows);
    let passed = |row: &Row| row.way == Way::Naive || row.report.wrong.is_empty();
    Ok(rows.iter().all(passed))
}

/// The caller's server, or else a private one.
fn open_store(options: &Options) -> Outcome<(String, Option<RedisServer>)> {
    if let Some(store) = &options.store {
        return Ok((store.clone(), None));
    }
    let server = RedisServer::start()?;
    Ok((server.unix_url(), Some(server)))
}

fn hide_password(store: &str) -> String {
    match (store.split_once("://"), store.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        _ => store.to_owned(),
    }
}

fn run_way(options: &Options, way: Way, store: &str, directory: &Path) -> Outcome<Row> {
    let orders = options.orders;
    // The names are new, so that no other data and no earlier run is touched.
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let sale = format!("flash-sale/{}/{begun}/{}", std::process::id(), way.word());
    let shifts = (0..PROCESSES).map(|process| Shift {
        store: store.to_owned(),
        sale: sale.clone(),
        way,
        orders,
        process,
        journal: directory.join(format!("{}-{process}.journal", way.word())),
    });
    let shifts: Vec<Shift> = shifts.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let counter = Counter::connect(store, sale.clone(), units(orders)).await?;
        if way == Way::Stock {
            for product in 0..PRODUCTS {
                let lines = [(product.to_string(), units(orders))];
                counter.stock().restock(format!("opening {product}"), lines).await?;
            }
        }
        let begin = Instant::now();
        Processes::start(shifts.clone())?.look_on(options, way).await?;
        let per_second = orders as f64 / begin.elapsed().as_secs_f64();
        let mut told = Vec::new();
        for shift in &shifts {
            told.extend(decisions(&shift.journal)?);
        }
        let report = check(&counter, way, orders, &told).await?;
        Ok(Row { way, per_second, report })
    })
}

/// The worker processes. Dropping this value kills them.
struct Processes(Vec<(Shift, Child)>);

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // A process that has ended by itself cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Processes {
    fn start(shifts: Vec<Shift>) -> Outcome<Self> {
        let mut processes = Self(Vec::new());
        for shift in shifts {
            let child = start(&shift)?;
            processes.0.push((shift, child));
        }
        Ok(processes)
    }

    /// Shows progress, kills workers as requested, and waits until all have ended.
    async fn look_on(&mut self, options: &Options, way: Way) -> Outcome {
        let is_terminal = std::io::stderr().is_terminal();
        let interval = if is_terminal { SHOW.0 } else { SHOW.1 };
        let (begin, mut shown) = (Instant::now(), Instant::now());
        let (mut strikes, mut killed) = (0_u64, 0_u64);
        while self.is_working()? {
            tokio::time::sleep(LOOK).await;
            if let Some(every) = options.kill_every
                && begin.elapsed() >= every * (strikes as u32 + 1)
            {
                strikes += 1;
                killed += u64::from(self.kill_one(mix(strikes))?);
            }
            if shown.elapsed() >= interval {
                shown = Instant::now();
                let percent = self.decided() * 100 / options.orders;
                let end = if is_terminal { "\r" } else { "\n" };
                eprint!("{:<18}{percent:>3} %{end}", way.title());
            }
        }
        if is_terminal {
            eprint!("{:<30}\r", "");
            std::io::stderr().flush()?;
        }
        if killed > 0 {
            println!("{:<18} {killed} processes were killed and started again", way.title());
        }
        Ok(())
    }

    fn is_working(&mut self) -> Outcome<bool> {
        let mut is_working = false;
        for (shift, child) in &mut self.0 {
            match child.try_wait()? {
                None => is_working = true,
                Some(status) if status.success() => {}
                Some(status) => {
                    return Err(format!("process {} ended with {status}", shift.process).into());
                }
            }
        }
        Ok(is_working)
    }

    /// Kills one of the workers and starts it again, and returns true if it was at work. A worker
    /// that has finished is spared, and no other is killed in its place. Otherwise the last workers
    /// would be killed more often than the lease of a dead holder lasts, and get nowhere.
    fn kill_one(&mut self, drawn: u64) -> Outcome<bool> {
        let count = self.0.len() as u64;
        let (shift, child) = &mut self.0[(drawn % count) as usize];
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        child.kill()?;
        child.wait()?;
        *child = start(shift)?;
        Ok(true)
    }

    fn decided(&self) -> u64 {
        let size = |(shift, _): &(Shift, Child)| std::fs::metadata(&shift.journal).ok();
        let bytes: u64 = self.0.iter().filter_map(size).map(|found| found.len()).sum();
        bytes / LINE_BYTES as u64
    }
}

fn start(shift: &Shift) -> Outcome<Child> {
    let program = std::env::current_exe()?;
    Ok(Command::new(program).args(shift.arguments()).stdin(Stdio::null()).spawn()?)
}

fn show_row(row: &Row) {
    let Report { accepted, second, sold_out, wrong } = &row.report;
    let verdict = match wrong.as_slice() {
        [] => "all checks passed".to_owned(),
        wrong => format!("WRONG: {}", wrong.join(", ")),
    };
    println!(
        "{:<18}{:>8.0} orders/s: {accepted} accepted, {second} second ones, {sold_out} sold out; \
         {verdict}",
        row.way.title(),
        row.per_second,
    );
}

fn chart(rows: &[Row]) {
    let fastest = rows.iter().map(|row| row.per_second).fold(1.0, f64::max);
    println!("\norders per second");
    for row in rows {
        let columns = (row.per_second / fastest * BAR).ceil() as usize;
        let mark = if row.report.wrong.is_empty() { "" } else { "  (wrong)" };
        let title = row.way.title();
        println!("{title:<18}{:<40} {:.0}{mark}", "█".repeat(columns), row.per_second);
    }
}
