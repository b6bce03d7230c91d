//! Delays that nobody has caused: of threads that only sleep and wake, and of idle servers. On an
//! overloaded machine, requests and waits take longer, and no lock can prevent that. So the bounds
//! of I8 are by a clock that stands still during these delays.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::promise::{Log, now_ns, read_logs};

/// How long a thread sleeps, and a server is idle, between two measurements.
const EVERY: Duration = Duration::from_millis(50);

/// A delay below this does not count.
const USUAL: Duration = Duration::from_millis(25);

/// How long a server's answer is awaited before the time is checked again.
const READ_LIMIT: Duration = Duration::from_millis(500);

/// Measures how late this process is, until it ends.
pub(crate) fn watch_this_process(log: Arc<Log>) {
    // The thread lives as long as the process, so nobody joins it.
    thread::spawn(move || {
        loop {
            measure_sleep(&log);
        }
    });
}

/// The same until the round is over.
pub(crate) fn watch_until(log: &Log, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        measure_sleep(log);
    }
}

fn measure_sleep(log: &Log) {
    let due = now_ns() + ns(EVERY);
    thread::sleep(EVERY);
    let woken = now_ns();
    if woken > due + ns(USUAL) {
        log.stalled(due, woken);
    }
}

/// Measures how late a server answers, until the round is over. One that is down never answers.
pub(crate) fn watch_server(port: u16, log: &Log, is_over: &AtomicBool) {
    let mut connection = None;
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(EVERY);
        let Some(stream) = connection.take().or_else(|| open(port)) else { continue };
        let asked = now_ns();
        if is_answered(&stream, is_over) {
            connection = Some(stream);
        }
        let answered = now_ns();
        if answered > asked + ns(USUAL) {
            log.server_stalled(asked, answered);
        }
    }
}

fn open(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(READ_LIMIT)).ok()?;
    Some(stream)
}

fn is_answered(mut stream: &TcpStream, is_over: &AtomicBool) -> bool {
    if stream.write_all(b"PING\r\n").is_err() {
        return false;
    }
    let mut answer = [0; 64];
    while !is_over.load(Ordering::Relaxed) {
        match stream.read(&mut answer) {
            Ok(0) => return false,
            Ok(count) if answer[..count].ends_with(b"\n") => return true,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    false
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Spans in which a process or a server ran late although nobody had stopped it: in order, and
/// without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stalls(Vec<(u64, u64)>);

type Span = (u64, u64);

/// The logs of one round so far.
#[derive(Default)]
struct Found {
    /// Late spans, by the number of the process; the driver has number zero.
    late: Vec<(u64, Span)>,
    late_servers: Vec<Span>,
    /// Processes that were stopped on purpose.
    stops: HashMap<u64, Vec<Span>>,
    wounds: Vec<Span>,
}

impl Stalls {
    /// The stalls in the logs of a directory.
    pub(crate) fn read(directory: &Path) -> Self {
        let mut found = Found::default();
        for (process, lines) in read_logs(directory) {
            lines.lines().for_each(|line| found.add(process, line));
        }
        found.stalls()
    }

    fn of(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable();
        let mut apart: Vec<Span> = Vec::new();
        for (from, to) in spans {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        Self(apart)
    }

    /// The time by a clock that stands still during all stalls.
    pub(crate) fn time(&self, at: u64) -> u64 {
        let before = self.0.iter().take_while(|(from, _)| *from < at);
        at - before.map(|(from, to)| to.min(&at) - from).sum::<u64>()
    }

    /// For how long that clock ran between two moments.
    pub(crate) fn running(&self, from: u64, to: u64) -> Duration {
        Duration::from_nanos(self.time(to).saturating_sub(self.time(from)))
    }

    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.iter().map(|(from, to)| to - from).sum())
    }
}

impl Found {
    fn add(&mut self, process: u64, line: &str) {
        let mut words = line.split(' ');
        let kind = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match kind {
            Some("s") => {
                if let (Some(from), Some(to)) = (number(), number()) {
                    self.late.push((process, (from, to)));
                }
            }
            Some("q") => self.late_servers.extend(number().zip(number())),
            Some("f") => self.wounds.extend(number().zip(number())),
            Some("z") => {
                if let (Some(stopped), Some(from), Some(to)) = (number(), number(), number()) {
                    self.stops.entry(stopped).or_default().push((from, to));
                }
            }
            _ => {}
        }
    }

    /// A delay because of a stop or a fault is no stall.
    fn stalls(self) -> Stalls {
        let none = Vec::new();
        let processes = self.late.iter().flat_map(|(process, span)| {
            without(*span, self.stops.get(process).unwrap_or(&none)) //
        });
        let servers = self.late_servers.iter().flat_map(|span| without(*span, &self.wounds));
        Stalls::of(processes.chain(servers).collect())
    }
}

/// The rest of a span without some others.
fn without(span: Span, others: &[Span]) -> Vec<Span> {
    let mut left = vec![span];
    for (from, to) in others {
        let parts = left.into_iter().flat_map(|(begin, end)| {
            [(begin, end.min(*from)), (begin.max(*to), end)] //
        });
        left = parts.filter(|(begin, end)| begin < end).collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use leasehold_testkit::must;

    use super::*;

    fn of(logs: &[(&str, &str)]) -> Stalls {
        let directory = must(tempfile::tempdir());
        for (name, text) in logs {
            must(std::fs::write(directory.path().join(name), text));
        }
        Stalls::read(directory.path())
    }

    #[test]
    fn time_stands_still_while_anything_is_late() {
        let stalls = of(&[("1.log", "s 10 20\ns 15 30\n"), ("0.log", "s 50 60\nq 58 70\n")]);
        assert_eq!(stalls, Stalls(vec![(10, 30), (50, 70)]));
        assert_eq!(
            [5, 10, 20, 30, 40, 60, 100].map(|at| stalls.time(at)),
            [5, 10, 10, 10, 20, 30, 60]
        );
        assert_eq!(stalls.running(25, 65), Duration::from_nanos(20));
        assert_eq!(stalls.total(), Duration::from_nanos(40));
    }

    #[test]
    fn what_was_stopped_or_hurt_is_not_late() {
        let own = "s 10 40\n";
        assert_eq!(
            of(&[("1.log", own), ("0.log", "z 1 12 30\n")]),
            Stalls(vec![(10, 12), (30, 40)])
        );
        assert_eq!(of(&[("1.log", own), ("0.log", "z 2 0 50\n")]), Stalls(vec![(10, 40)]));
        let hurt = of(&[("0.log", "q 10 40\n"), ("nemesis.log", "f 0 35 FullMemory\n")]);
        assert_eq!(hurt, Stalls(vec![(35, 40)]));
    }

    #[test]
    fn half_a_line_and_other_lines_count_nothing() {
        assert_eq!(of(&[("1.log", "e dropped\ns 10\ns 1 2")]), Stalls::default());
    }
}
