//! The promises of a guard, recorded so that they outlive its process.
//!
//! A guard is asked again and again. Two answers in a row are both "held", and the validity of the
//! first reaches to the second. Then the guard would have said "held" at every instant between,
//! because a lost lease stays lost. Such spans are the promises. The time after the last answer
//! does not count, so a process may be stopped or killed anywhere.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::Guard;
use leasehold::admin::HolderId;
use leasehold::lease::Mode;
use leasehold::time::{Clock, SystemClock};
use leasehold_testkit::must;

/// How often the promise of a long hold is recorded: a kill loses at most this much of it.
const WRITE_EVERY_NS: u64 = 20_000_000;

/// Nanoseconds of the clock that all processes of the machine share, `CLOCK_BOOTTIME`.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(SystemClock::new().now().since_origin().as_nanos()).unwrap_or(u64::MAX)
}

/// The records of one process: lines, each appended to a separate file by one call.
pub(crate) struct Log {
    file: File,
    /// The number of the process, in the high bits of the numbers that it draws.
    process: u64,
    counted: AtomicU64,
}

impl Log {
    pub(crate) fn create(directory: &Path, process: u64) -> Self {
        let path = directory.join(format!("{process}.log"));
        let file = must(OpenOptions::new().append(true).create(true).open(path));
        Self { file, process, counted: AtomicU64::new(1) }
    }

    /// A unique number, which shows the process and the client.
    pub(crate) fn fresh(&self, client: usize) -> u64 {
        let number = self.counted.fetch_add(1, Ordering::Relaxed);
        number | (client as u64) << 40 | self.process << 48
    }

    /// How many holds there were so far.
    pub(crate) fn holds(&self) -> u64 {
        self.counted.load(Ordering::Relaxed) - 1
    }

    /// An event that is only counted.
    pub(crate) fn event(&self, kind: &str) {
        self.append(&format!("e {kind}\n"));
    }

    /// A lease that was handed out as `number` was adopted.
    pub(crate) fn adopted(&self, number: u64) {
        self.append(&format!("a {number}\n"));
    }

    /// A request was given up.
    pub(crate) fn gave_up(&self, name: &str, asked: u64) {
        self.append(&format!("u {name} {asked} {}\n", now_ns()));
    }

    /// A violation, by the number of its check.
    pub(crate) fn violation(&self, what: &str) {
        self.append(&format!("v {what}\n"));
    }

    /// A holder begins to read and to write a protected value.
    pub(crate) fn invoked(&self, name: &str, value: u64, token: u64) {
        self.append(&format!("r {name} {value} {} {token}\n", now_ns()));
    }

    /// The value was written in the place of another one.
    pub(crate) fn returned(&self, value: u64, old: u64) {
        self.append(&format!("d {value} {} {old}\n", now_ns()));
    }

    /// The value was refused, because of its token.
    pub(crate) fn refused(&self, value: u64) {
        self.append(&format!("n {value}\n"));
    }

    /// The result of an order or a delivery of these pieces.
    pub(crate) fn traded(&self, what: &str, id: &str, pieces: &str) {
        self.append(&format!("k {what} {id} {pieces}\n"));
    }

    /// A number was drawn, or is about to be drawn.
    pub(crate) fn number(&self, what: &str) {
        self.append(&format!("m {what}\n"));
    }

    /// The job of this guard has reported its end; it must not start again in this period.
    pub(crate) fn ran(&self, name: &str, guard: u64, period: Duration) {
        self.append(&format!("j {name} {guard} {}\n", period.as_nanos()));
    }

    /// A caller asked for the leader, at `asked`, and knows the answer by now.
    pub(crate) fn leads(&self, name: &str, token: u64, asked: u64) {
        self.append(&format!("l {name} {token} {asked}\n"));
    }

    /// The waiters of a name, in the order of its queue: each attempt, and when it had joined.
    pub(crate) fn queue(&self, name: &str, waiting: &[(HolderId, u64)]) {
        let waiting = waiting.iter().map(|(id, since)| {
            format!(" {} {} {since}", id.client.0, id.attempt) //
        });
        self.append(&format!("o {name}{}\n", waiting.collect::<String>()));
    }

    /// This process ran late, perhaps because it was stopped.
    pub(crate) fn stalled(&self, from: u64, to: u64) {
        self.append(&format!("s {from} {to}\n"));
    }

    /// A server answered late, perhaps because of a fault.
    pub(crate) fn server_stalled(&self, from: u64, to: u64) {
        self.append(&format!("q {from} {to}\n"));
    }

    pub(crate) fn stopped(&self, process: u64, from: u64, to: u64) {
        self.append(&format!("z {process} {from} {to}\n"));
    }

    /// A line of a program that has no guards.
    pub(crate) fn line(&self, line: &str) {
        self.append(&format!("{line}\n"));
    }

    fn append(&self, text: &str) {
        must((&self.file).write_all(text.as_bytes()));
    }
}

pub(crate) struct Watch<'a> {
    log: &'a Log,
    /// The number of this guard, and of the first guard of its lease.
    guard: u64,
    lineage: u64,
    open: Option<Open>,
    text: String,
    written_ns: u64,
}

/// A promise that may go on.
struct Open {
    mode: Mode,
    /// Each name with its token.
    names: Vec<(String, u64)>,
    since: u64,
    /// The last time at which the guard was known to be held.
    known: u64,
    /// Until when the guard is held, at least, by its answer.
    until: u64,
}

/// The answer of a guard, between two reads of the clock.
struct Answer {
    before: u64,
    after: u64,
    mode: Mode,
    until: u64,
}

impl Answer {
    /// `None` if the guard is not held. A guard without validity must not say that it is held.
    fn of(guard: &Guard, log: &Log) -> Option<Self> {
        let before = now_ns();
        let (validity, is_held, mode) = (guard.validity(), guard.is_held(), guard.mode());
        let after = now_ns();
        if validity.is_zero() && is_held {
            log.violation(&format!("I5 {} is held without validity", guard.name()));
        }
        let until = before + u64::try_from(validity.as_nanos()).unwrap_or(u64::MAX);
        (is_held && !validity.is_zero()).then_some(Self { before, after, mode, until })
    }
}

impl Open {
    fn new(answer: &Answer, guard: &Guard) -> Self {
        Self {
            mode: answer.mode,
            names: names(guard).map(|(name, token)| (name.to_owned(), token)).collect(),
            since: answer.after,
            known: answer.after,
            until: answer.until,
        }
    }
}

impl<'a> Watch<'a> {
    /// Watches the first guard of a lease, which was requested at `asked`.
    pub(crate) fn granted(log: &'a Log, client: usize, asked: u64, guard: &Guard) -> Self {
        let number = log.fresh(client);
        let mut watch = Self::of(log, number, number);
        let (entered, id) = (now_ns(), guard.holder());
        let id = format!("{} {}", id.client.0, id.attempt);
        for (name, token) in names(guard) {
            // Writing to a String cannot fail.
            let _ = writeln!(watch.text, "g {name} {number} {asked} {entered} {token} {id}");
        }
        watch.ask(guard);
        watch
    }

    /// Watches a guard that has adopted a lease.
    pub(crate) fn adopted(log: &'a Log, client: usize, lineage: u64, guard: &Guard) -> Self {
        let mut watch = Self::of(log, log.fresh(client), lineage);
        watch.ask(guard);
        watch
    }

    fn of(log: &'a Log, guard: u64, lineage: u64) -> Self {
        Self { log, guard, lineage, open: None, text: String::new(), written_ns: now_ns() }
    }

    pub(crate) fn guard(&self) -> u64 {
        self.guard
    }

    /// The number of the first guard of the lease.
    pub(crate) fn lineage(&self) -> u64 {
        self.lineage
    }

    /// Asks the guard. Returns whether it is held.
    pub(crate) fn ask(&mut self, guard: &Guard) -> bool {
        let Some(answer) = Answer::of(guard, self.log) else {
            self.close();
            return false;
        };
        if let Some(mut open) = self.open.take() {
            // It was held throughout, as far as the validity of the answer before reached.
            let held_to = open.until.min(answer.before);
            let has_renewed_unseen = open.until < answer.after;
            open.known = open.known.max(held_to);
            if has_renewed_unseen {
                self.write_span(&open);
            } else {
                open.until = answer.until;
                self.open = Some(open);
            }
        }
        if self.open.is_none() {
            self.open = Some(Open::new(&answer, guard));
        }
        if answer.after - self.written_ns > WRITE_EVERY_NS {
            self.write_open();
        }
        true
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.write_span(&open);
        }
    }

    /// Writes the span that is known so far; the promise goes on from there.
    fn write_open(&mut self) {
        if let Some(mut open) = self.open.take() {
            self.write_span(&open);
            open.since = open.known;
            self.open = Some(open);
        }
        self.log.append(&self.text);
        self.text.clear();
        self.written_ns = now_ns();
    }

    fn write_span(&mut self, open: &Open) {
        let (from, to) = (open.since, open.known);
        if from >= to {
            return;
        }
        let (guard, lineage) = (self.guard, self.lineage);
        let (weight, capacity) = (open.mode.weight(), open.mode.capacity());
        for (name, token) in &open.names {
            let span = format!("{from} {to} {token} {weight} {capacity}");
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "p {name} {guard} {lineage} {span}");
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.close();
        self.write_open();
    }
}

fn names(guard: &Guard) -> impl Iterator<Item = (&str, u64)> {
    guard.tokens().map(|(name, token)| (name.as_str(), token.get()))
}

/// The logs of all processes in a directory: the number of each process, zero for the driver, and
/// its lines. The last line of a process that was killed or still writes may be incomplete, and is
/// left out.
pub(crate) fn read_logs(directory: &Path) -> Vec<(u64, String)> {
    let mut logs = Vec::new();
    for entry in must(fs::read_dir(directory)) {
        let path = must(entry).path();
        if path.extension().is_some_and(|end| end == "log") {
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let mut text = must(fs::read(&path));
            text.truncate(text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
            logs.push((number.unwrap_or(0), must(String::from_utf8(text))));
        }
    }
    logs
}
