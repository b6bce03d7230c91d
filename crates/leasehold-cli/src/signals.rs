//! Signals that are passed on to the command, as they arrive.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What is passed on to the command, and what stops and continues it.
const PASSED_ON: [Signal; 9] = [
    Signal::CONT,
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
];

/// The signals this process was sent.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches what is passed on to the command.
    ///
    /// A signal that was ignored when this process began stays ignored: that is how `nohup` and
    /// the `&` of a shell script say that the command shall not see it, and a caught signal would
    /// be reset to its default when the command is executed.
    pub(crate) fn catch_all() -> io::Result<Self> {
        let ignored = ignored_signals();
        let wanted = PASSED_ON.into_iter().filter(|signal| !is_in(ignored, *signal));
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

fn is_in(mask: u64, signal: Signal) -> bool {
    let bit = u32::try_from(signal.as_raw() - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).unwrap_or(0) & 1 == 1
}

/// The signals this process ignores, one bit each, as Linux shows them; elsewhere none are known.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// The name of a signal as kill(1) has it, with `SIG`.
pub(crate) fn signal_name(signal: Signal) -> String {
    let known = nix::sys::signal::Signal::try_from(signal.as_raw());
    known.map_or_else(|_| format!("signal {}", signal.as_raw()), |known| known.as_str().to_owned())
}
