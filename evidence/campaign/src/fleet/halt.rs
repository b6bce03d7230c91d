//! Whether two processes that should end a third one could do so.

use std::mem;
use std::time::Duration;

use leasehold_testkit::outage::Usage;

use crate::promise::now_ns;

/// The processes that end a command whose lease has ended: leasehold and its guardian. Once both
/// are halted, GUARANTEES.md (L6) promises only the order of tokens.
///
/// They are halted if neither got processor time between two looks, and that span is longer than
/// leasehold ever sleeps. The caller looks often, so such a span shows that the caller was halted,
/// too. Two processes that oversleep while the caller runs are not excused.
#[derive(Debug)]
pub(super) struct Halt {
    processes: [u32; 2],
    longest_sleep: Duration,
    processor_time: Option<Duration>,
    looked_at: u64,
}

impl Halt {
    /// Watches these processes from now on.
    pub(super) fn new(processes: [u32; 2], longest_sleep: Duration) -> Self {
        let processor_time = processor_time(&processes);
        Self { processes, longest_sleep, processor_time, looked_at: now_ns() }
    }

    /// Whether both processes were halted from the last look until now.
    pub(super) fn was_on(&mut self) -> bool {
        let unseen = Duration::from_nanos(now_ns().saturating_sub(self.looked_at));
        let now = Self::new(self.processes, self.longest_sleep);
        let before = mem::replace(self, now);
        unseen > self.longest_sleep
            && self.processor_time.is_some()
            && self.processor_time == before.processor_time
    }
}

/// The processor time of these processes together; `None` if one has ended.
fn processor_time(processes: &[u32]) -> Option<Duration> {
    processes.iter().map(|process| Some(Usage::of(*process).ok()?.cpu)).sum()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};

    use leasehold_testkit::harness::until_so;
    use leasehold_testkit::must;

    use super::*;

    /// A process that has nothing to do.
    struct Idle(Child);

    impl Idle {
        fn start() -> Self {
            let mut process = Command::new("cat");
            process.stdin(Stdio::piped()).stdout(Stdio::piped());
            let idle = Self(must(process.spawn()));
            idle.until_asleep();
            idle
        }

        fn until_asleep(&self) {
            let path = format!("/proc/{}/stat", self.0.id());
            until_so("it sleeps", || must(fs::read_to_string(&path)).contains("(cat) S"));
        }

        fn run(&mut self) {
            let mut answer = String::new();
            must(self.0.stdin.as_mut().unwrap().write_all(b"there\n"));
            must(BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut answer));
            self.until_asleep();
        }

        fn end(mut self) {
            drop(self.0.stdin.take());
            must(self.0.wait());
        }
    }

    #[test]
    fn two_processes_without_processor_time_for_longer_than_they_sleep_were_halted() {
        let mut two = [Idle::start(), Idle::start()];
        let processes = [two[0].0.id(), two[1].0.id()];
        let mut halt = Halt::new(processes, Duration::ZERO);
        assert!(halt.was_on());
        assert!(!Halt::new(processes, Duration::MAX).was_on(), "they may sleep");
        two[1].run();
        assert!(!halt.was_on(), "one of them has run");
        two.into_iter().for_each(Idle::end);
        assert!(!halt.was_on(), "nothing is known of processes that have ended");
    }
}
