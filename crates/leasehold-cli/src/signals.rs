//! Signals that are passed on to the command, and the signal by which this process ends itself.

use std::future::poll_fn;
use std::io;
use std::sync::LazyLock;
use std::task::Poll;

use nix::unistd::{self, getpgid, getpgrp, getppid, getsid};
#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Pid, Signal, getpid, kill_current_process_group};
#[cfg(target_os = "linux")]
use rustix_libc_wrappers::process::SignalExt as _;
use tokio::signal::unix::{self, SignalKind};

use crate::process::Process;

/// The signals that are passed on to the command, besides real-time signals. They include the
/// signals that stop and continue it, and all that others send to end this process. They exclude
/// signals for a program's own faults, and PIPE, which every program in Rust ignores.
const PASSED_ON: &[Signal] = &[
    Signal::ABORT,
    Signal::ALARM,
    Signal::CONT,
    Signal::HUP,
    Signal::INT,
    Signal::PROF,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::USR1,
    Signal::USR2,
    Signal::VTALARM,
    Signal::WINCH,
    Signal::XCPU,
    #[cfg(target_os = "linux")]
    Signal::IO,
    #[cfg(target_os = "linux")]
    Signal::POWER,
    #[cfg(target_os = "linux")]
    Signal::STKFLT,
];

/// The signals that were sent to this process.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches the signals that are passed on to the command.
    ///
    /// A signal that was ignored when this process began stays ignored: `nohup`, and `&` in a shell
    /// script, hide signals from the command in this way. If leasehold caught the signal, exec
    /// would reset it to its default.
    pub(crate) fn catch_all() -> io::Result<Self> {
        Self::catch(PASSED_ON.iter().copied().chain(real_time()))
    }

    /// Catches these signals, without those that were ignored when this process began.
    pub(crate) fn catch(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let wanted = signals.into_iter().filter(|signal| !is_in(*IGNORED, *signal));
        let streams = wanted.map(|signal| {
            let stream = unix::signal(SignalKind::from_raw(signal.as_raw()))?;
            Ok((signal, stream))
        });
        Ok(Self { streams: streams.collect::<io::Result<_>>()? })
    }

    /// The next signal that arrives.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The real-time signals, which only Linux has.
fn real_time() -> impl Iterator<Item = Signal> {
    #[cfg(target_os = "linux")]
    return (0..).map_while(Signal::rt);
    #[cfg(not(target_os = "linux"))]
    std::iter::empty()
}

/// Whether the signal ends a wait. Other signals stop or continue this process, or are for a
/// command that may not run yet.
pub(crate) fn is_end(signal: Signal) -> bool {
    let others = [Signal::CONT, Signal::TSTP, Signal::USR1, Signal::USR2, Signal::WINCH];
    !others.contains(&signal)
}

/// The signal with this number, on Linux also a real-time one.
pub(crate) fn numbered(number: i32) -> Option<Signal> {
    #[cfg(target_os = "linux")]
    return Signal::from_raw(number);
    #[cfg(not(target_os = "linux"))]
    Signal::from_named_raw(number)
}

/// Whether a process can continue this one after a stop: an ancestor in the same session and in
/// another process group, such as an interactive shell. Without one, the kernel stops no process by
/// Ctrl-Z.
///
/// In a PID namespace, the number 0 stands for every process, group and session that is outside.
pub(crate) fn can_be_continued() -> bool {
    let (session, group) = (getsid(None), getpgrp());
    let mut ancestor = getppid();
    while ancestor.as_raw() != 0 {
        if getsid(Some(ancestor)) != session {
            return false;
        }
        if getpgid(Some(ancestor)) != Ok(group) {
            return true;
        }
        // Without a `/proc` that shows the ancestor, its parent is not known.
        let Ok(process) = Process::read(ancestor.as_raw()) else { return true };
        ancestor = unistd::Pid::from_raw(process.parent);
    }
    false
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail with an error, instead of ending
/// this process without a message. It must be called within a runtime.
pub(crate) fn survive_file_limits() -> io::Result<()> {
    // The signal is caught instead of ignored, so that the command inherits the caller's setting.
    // The handler stays when the stream is dropped.
    if !is_in(*IGNORED, Signal::XFSZ) {
        let _unread = unix::signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
    }
    Ok(())
}

/// A signal by which this process ends itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) number: i32,
    /// The other processes of the terminal must get the signal, too: the terminal was lent to the
    /// command, so only the command got Ctrl-C, and not the script that runs leasehold.
    pub(crate) is_for_group: bool,
}

impl Death {
    /// Ends this process by the signal that ended the command. So the parent, such as a shell in
    /// the middle of a loop, sees that the user wants to stop. Returns if that is not possible.
    pub(crate) fn die(self) {
        // The first process of a container does not get signals that it does not catch.
        if getpid() == Pid::INIT {
            return;
        }
        // Only a core file of the command would be useful.
        #[cfg(target_os = "linux")]
        let _dumps = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        if let (true, Some(signal)) = (self.is_for_group, numbered(self.number)) {
            let _alone = kill_current_process_group(signal);
        }
        let _unknown = signal_hook::low_level::emulate_default_handler(self.number);
    }
}

fn is_in(mask: u64, signal: Signal) -> bool {
    let bit = u32::try_from(signal.as_raw() - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).unwrap_or(0) & 1 == 1
}

/// The signals that were ignored when this process began, one bit each, as Linux shows them. On
/// other systems it is 0.
static IGNORED: LazyLock<u64> = LazyLock::new(|| {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
});

/// The name of a signal as kill(1) has it, with `SIG`.
pub(crate) fn signal_name(signal: Signal) -> String {
    let known = nix::sys::signal::Signal::try_from(signal.as_raw());
    match (known, real_time().position(|it| it == signal)) {
        (Ok(known), _) => known.as_str().to_owned(),
        (Err(_), Some(0)) => "SIGRTMIN".to_owned(),
        (Err(_), Some(n)) => format!("SIGRTMIN+{n}"),
        (Err(_), None) => format!("signal {}", signal.as_raw()),
    }
}

/// Reads the name of a signal that ends a program: `INT`, `SIGINT` or `int`.
pub(crate) fn ending_signal(name: &str) -> Result<Signal, String> {
    let upper = name.to_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let known = full.parse::<nix::sys::signal::Signal>().ok();
    match known.and_then(|known| numbered(known as i32)) {
        None => Err(format!("{name:?} is no signal: write INT, HUP, QUIT, USR1 or the like")),
        Some(
            Signal::CHILD
            | Signal::CONT
            | Signal::STOP
            | Signal::TSTP
            | Signal::TTIN
            | Signal::TTOU
            | Signal::URG
            | Signal::WINCH,
        ) => Err(format!("{name:?} does not end a program: write INT, HUP, QUIT or the like")),
        Some(signal) => Ok(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_ends_a_program_is_read_by_its_name() {
        for name in ["INT", "SIGINT", "int"] {
            assert_eq!(ending_signal(name), Ok(Signal::INT), "{name}");
        }
        for wrong in ["", "SIG", "CONT", "STOP", "WINCH", "2", "INTERRUPT"] {
            assert!(ending_signal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn signals_are_named_as_kill_names_them() {
        let names: Vec<String> =
            [Signal::TERM, Signal::rt(0).unwrap(), Signal::rt(3).unwrap()].map(signal_name).into();
        assert_eq!(names, ["SIGTERM", "SIGRTMIN", "SIGRTMIN+3"]);
        assert_eq!(signal_name(Signal::STKFLT), "SIGSTKFLT");
    }
}
