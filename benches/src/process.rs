//! What the kernel says of processes and of the machine.

use std::fs;
use std::time::Duration;

use crate::Outcome;

/// One line on the machine and the programs of this run.
pub(crate) fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let names = cpus.lines().filter_map(|line| line.strip_prefix("model name"));
    let model = names.clone().next().unwrap_or("unknown").trim_start_matches([':', ' ', '\t']);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{} × {model}, Linux {}", names.count(), kernel.trim())
}

/// Processor time that the threads of a process have used so far, to the nanosecond: a hundred
/// processes that each use less than a tick of the clock must not add up to nothing.
pub(crate) fn cpu(pid: u32) -> Outcome<Duration> {
    let mut used = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // The first number of this file is time on a processor, in ns (Documentation/scheduler/
        // sched-stats.rst). A thread may end while we look.
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let nanoseconds = text.split_whitespace().next().unwrap_or("0");
        used += Duration::from_nanos(nanoseconds.parse()?);
    }
    Ok(used)
}

/// Memory of this process that is in RAM, in bytes.
pub(crate) fn memory() -> Outcome<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).ok_or("no second field")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
