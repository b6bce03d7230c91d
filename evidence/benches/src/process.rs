//! What the kernel reports about processes and the machine.

use std::fs;
use std::time::Duration;

use leasehold_testkit::outage::Usage;

use crate::outcome::Outcome;

/// One line about the machine and the programs of this run.
pub(crate) fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let names = cpus.lines().filter_map(|line| line.strip_prefix("model name"));
    let model = names.clone().next().unwrap_or("unknown").trim_start_matches([':', ' ', '\t']);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{} × {model}, Linux {}", names.count(), kernel.trim())
}

/// Processor time that a process has used so far, to the nanosecond: a hundred processes that each
/// use less than a tick of the clock must not add up to nothing.
pub(crate) fn cpu(pid: u32) -> Outcome<Duration> {
    Ok(Usage::of(pid)?.cpu)
}

/// Memory of this process that is in RAM, in bytes.
pub(crate) fn memory() -> Outcome<u64> {
    Ok(Usage::of(std::process::id())?.memory)
}

/// The most memory that this process ever had in RAM, in KiB.
pub(crate) fn peak_memory_kib() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|rest| rest.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(peak.parse()?)
}
