//! What `/proc` says of one process.

use std::fs;
use std::io;

/// One process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// When the process began, in ticks since the machine was started. If the number is used again,
    /// this shows that it belongs to another process.
    pub(crate) began: u64,
    pub(crate) program: String,
    /// The process has ended, and its parent has not waited for it yet.
    pub(crate) has_ended: bool,
    /// A signal or a debugger has stopped the process.
    pub(crate) is_stopped: bool,
}

impl Process {
    pub(crate) fn read(pid: i32) -> io::Result<Self> {
        // A program's name may be in any encoding.
        let stat = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&stat)).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Reads `/proc/PID/stat` (proc_pid_stat(5)). A process in the state X is gone: its parent has
    /// waited for it, and its other numbers are not its own any more.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        // The name of the program is in the outermost brackets, and may have spaces and brackets
        // itself.
        let (pid, rest) = stat.split_once('(')?;
        let (program, rest) = rest.rsplit_once(')')?;
        // A search reads the files of all processes, so nothing more of each is looked at.
        let fields: Vec<&str> = rest.split(' ').skip(1).take(20).collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        let state = fields.first().filter(|state| !state.eq_ignore_ascii_case("X"))?;
        let threads = number(17)?;
        Some(Self {
            pid: pid.trim_end().parse().ok()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            began: fields.get(19)?.parse().ok()?,
            program: program.to_owned(),
            // The first thread may have ended before the others.
            has_ended: *state == "Z" && threads <= 1,
            is_stopped: state.eq_ignore_ascii_case("T"),
        })
    }

    /// Whether the number still belongs to this process, and its group is the same. Much time may
    /// have passed since the process was read, because this process may have been stopped.
    pub(crate) fn is_still_there(&self) -> bool {
        Self::read(self.pid).is_ok_and(|now| (now.began, now.group) == (self.began, self.group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32, state: &str, threads: i32) -> String {
        let zeros = "0 ".repeat(11);
        format!("{pid} (a) b (c) {state} {parent} 7 8 {zeros}20 0 {threads} 0 4711 9 9\n")
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let expected = Process {
            pid: 3,
            parent: 2,
            group: 7,
            session: 8,
            began: 4711,
            program: "a) b (c".to_owned(),
            has_ended: false,
            is_stopped: false,
        };
        assert_eq!(Process::parse(&stat(3, 2, "S", 1)), Some(expected));
        assert_eq!(Process::parse("3 (a"), None);
    }

    #[test]
    fn a_process_has_ended_with_its_last_thread() {
        let has_ended =
            |state, threads| Process::parse(&stat(3, 2, state, threads)).unwrap().has_ended;
        assert!(has_ended("Z", 1));
        assert!(!has_ended("Z", 2));
        assert!(!has_ended("T", 1));
        assert_eq!(Process::parse(&stat(3, 2, "X", 1)), None);
    }
}
