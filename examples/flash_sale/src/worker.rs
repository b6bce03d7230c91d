//! A worker: one of the processes that take orders.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::outcome::Outcome;
use crate::sale::{Decision, Order, Way, units};
use crate::ways::Counter;

/// The first argument of a process that is a worker.
pub(crate) const COMMAND: &str = "worker";

/// How many customers of one process wait for an answer at the same time.
const IN_FLIGHT: usize = 500;

/// How often a worker tries an order before it gives up, and the pause between two tries. Together
/// they are half a minute, longer than the lease of a killed holder.
const TRIES: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

/// The task of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    pub(crate) store: String,
    pub(crate) sale: String,
    pub(crate) way: Way,
    pub(crate) orders: u64,
    pub(crate) process: u64,
    pub(crate) journal: PathBuf,
}

impl Shift {
    /// The task as arguments of a process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        vec![
            COMMAND.to_owned(),
            self.store.clone(),
            self.sale.clone(),
            self.way.word().to_owned(),
            self.orders.to_string(),
            self.process.to_string(),
            self.journal.display().to_string(),
        ]
    }

    fn parse(arguments: &[String]) -> Outcome<Self> {
        let [store, sale, way, orders, process, journal] = arguments else {
            return Err("a worker is started by flash-sale itself".into());
        };
        Ok(Self {
            store: store.clone(),
            sale: sale.clone(),
            way: Way::parse(way)?,
            orders: orders.parse()?,
            process: process.parse()?,
            journal: journal.into(),
        })
    }
}

/// Runs a worker as a separate process.
pub(crate) fn main(arguments: &[String]) -> Outcome {
    let shift = Shift::parse(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work(&shift))
}

/// Connects, and tries again for a while: on a busy machine, the first answer may be late.
async fn connect(shift: &Shift) -> Outcome<Counter> {
    let mut tries = 0;
    loop {
        match Counter::connect(&shift.store, shift.sale.clone(), units(shift.orders)).await {
            Ok(counter) => return Ok(counter),
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        tries += 1;
    }
}

/// Takes the orders of a shift that are not in its journal yet.
async fn work(shift: &Shift) -> Outcome {
    let decided: HashSet<u64> =
        decisions(&shift.journal)?.into_iter().map(|(order, _)| order.number).collect();
    let mut journal = OpenOptions::new().create(true).append(true).open(&shift.journal)?;
    let counter = connect(shift).await?;
    let orders = Order::of_process(shift.process, shift.orders);
    let orders = orders.filter(|order| !decided.contains(&order.number));
    let counter = &counter;
    let mut answers = stream::iter(orders)
        .map(|order| async move { (order, patiently(counter, shift.way, order).await) })
        .buffer_unordered(IN_FLIGHT);
    while let Some((order, decision)) = answers.next().await {
        confirm(&mut journal, order, decision?)?;
    }
    Ok(())
}

/// Asks again until the order is decided: the same order gets the same answer.
async fn patiently(counter: &Counter, way: Way, order: Order) -> Outcome<Decision> {
    let mut tries = 0;
    loop {
        match counter.decide(way, order).await {
            Ok(decision) => return Ok(decision),
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        tries += 1;
    }
}

/// Answers the customer, in the journal. It uses one write, so that a killed process leaves whole
/// lines.
fn confirm(journal: &mut File, order: Order, decision: Decision) -> Outcome {
    Ok(journal.write_all(decision.line(order).as_bytes())?)
}

/// The decisions in a journal.
pub(crate) fn decisions(journal: &Path) -> Outcome<Vec<(Order, Decision)>> {
    let text = match std::fs::read_to_string(journal) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let parse = |line| Decision::parse(line).ok_or_else(|| format!("journal: {line:?}").into());
    text.lines().map(parse).collect()
}
