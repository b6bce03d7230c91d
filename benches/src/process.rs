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

/// Processor time that a process has used so far, in user and kernel mode.
pub(crate) fn cpu(pid: u32) -> Outcome<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is a name in parentheses with anything in it; utime and stime are the 14th
    // and the 15th (proc(5)).
    let (_, rest) = stat.rsplit_once(')').ok_or("no name in /proc/PID/stat")?;
    let mut ticks = 0_u64;
    for field in rest.split_whitespace().skip(11).take(2) {
        ticks += field.parse::<u64>()?;
    }
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Memory of this process that is in RAM, in bytes.
pub(crate) fn memory() -> Outcome<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).ok_or("no second field")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
