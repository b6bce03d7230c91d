//! One server of a simulated cluster: the model's own step, and a queue before it.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use leasehold::LockName;
use leasehold::time::Instant;
use leasehold_core::model::{self, DEFAULT_RETENTION, Outcome, Record};
use leasehold_core::{Action, Addressed, Answer, Now, Operation, Page};

use super::counts::{Counts, Timeline};

/// The cost of one script for a server, if each client has a separate connection: 12 µs. A
/// hand-over is two scripts and a message, and costs 35 µs (benches: contended).
pub const SCRIPT: Duration = Duration::from_micros(12);

/// The cost of each lease in a renewal: 11 µs (benches: held).
pub const RENEWED_LEASE: Duration = Duration::from_micros(11);

/// The cost of a message for each node of a cluster, whichever client it is for: 9 µs. Three more
/// nodes cost 27 µs more in all (benches: how a waiter is told).
pub const BUS_MESSAGE: Duration = Duration::from_micros(9);

/// The cost of accepting a connection, with its greeting: 60 µs. A map of a hundred nodes costs the
/// same.
pub const CONNECT: Duration = Duration::from_micros(60);

/// A server.
#[derive(Debug, Default)]
pub(super) struct Node {
    records: Table,
    /// The records before their last changes, the newest last.
    before: VecDeque<(Instant, LockName, Option<Record>)>,
    /// How far a replica is behind these changes.
    lag: Duration,
    pub(super) is_down: bool,
    /// Counts the servers that have served its names, one after the other.
    pub(super) generation: u64,
    busy_until: Instant,
    pub(super) busy: Duration,
    pub(super) counts: Counts,
    pub(super) timeline: Timeline,
}

#[derive(Debug, Default)]
struct Table(HashMap<LockName, Record>);

impl Node {
    pub(super) fn new(lag: Duration) -> Self {
        Self { lag, ..Self::default() }
    }

    /// Accepts work that arrives at `now`, and returns when it is done.
    pub(super) fn work(&mut self, now: Instant, cost: Duration) -> Instant {
        self.busy += cost;
        self.busy_until = self.busy_until.max(now) + cost;
        self.busy_until
    }

    /// Executes an operation that arrives now, and returns when its answer leaves.
    pub(super) fn execute(
        &mut self,
        at: Instant,
        now: Now,
        operation: &Operation,
    ) -> (Answer, Vec<Addressed>, Instant) {
        self.counts.add(operation);
        self.remember(at, operation);
        let Ok((answer, messages)) = model::apply(&mut self.records, now, operation);
        let cost = match operation {
            Operation::Renew(leases) => RENEWED_LEASE * leases.len() as u32,
            _ => SCRIPT,
        };
        self.counts.messages += messages.len() as u64;
        (answer, messages, self.work(at, cost))
    }

    fn remember(&mut self, at: Instant, operation: &Operation) {
        if self.lag.is_zero() || operation.is_read_only() {
            return;
        }
        while self.before.front().is_some_and(|(then, ..)| *then + self.lag < at) {
            self.before.pop_front();
        }
        let names: Vec<_> = match operation {
            Operation::On { name, .. } => vec![name],
            Operation::Renew(leases) => leases.iter().map(|lease| &lease.name).collect(),
            _ => Vec::new(),
        };
        for name in names {
            self.before.push_back((at, name.clone(), self.records.0.get(name).cloned()));
        }
    }

    /// Lets a replica take over with its data. Returns the names of which it has missed changes.
    pub(super) fn promote(&mut self) -> Vec<LockName> {
        let mut missed = Vec::new();
        while let Some((_, name, record)) = self.before.pop_back() {
            match record {
                Some(record) => self.records.0.insert(name.clone(), record),
                None => self.records.0.remove(&name),
            };
            missed.push(name);
        }
        missed.sort();
        missed.dedup();
        self.is_down = false;
        self.generation += 1;
        missed
    }
}

impl model::Records for Table {
    type Error = Infallible;

    fn list(&mut self, _: &str, _: u32, _: bool) -> Result<Vec<LockName>, Infallible> {
        Ok(Vec::new()) // nobody of a fleet asks for that
    }

    fn page(&mut self, _: &str, _: Option<&str>, _: u32) -> Result<Page, Infallible> {
        Ok(Page::default())
    }

    fn step(&mut self, now: Now, name: &LockName, action: &Action) -> Result<Outcome, Infallible> {
        let record = match self.0.get_mut(name) {
            Some(record) => record,
            None => self.0.entry(name.clone()).or_default(),
        };
        let outcome = model::step(record, now, DEFAULT_RETENTION, action);
        if record.collect_at_us == 0 {
            self.0.remove(name);
        }
        Ok(outcome)
    }
}
