//! How a command is ended: the options, and their values.

use std::time::Duration;

use clap::{Args, ValueEnum};
use leasehold::time::show_duration;
use rustix::process::Signal;

use super::values::duration;
use crate::report::Failure;
use crate::signals::ending_signal;

/// The default time between TERM and KILL: 5 s, as in `consul lock`, or a quarter of the ttl if
/// that is shorter.
const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// How a command is ended.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct EndArgs {
    /// What happens to CMD when the lease is lost
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,
    /// The signal that CMD and all its processes get first when they must end: INT, QUIT, …
    #[arg(long, value_name = "NAME", value_parser = ending_signal, default_value = "TERM")]
    pub(crate) signal: Signal,
    /// The time between TERM and KILL, also after a TERM to leasehold itself. Processes that CMD
    /// leaves behind have this time before TERM. Default: 5s or a quarter of the ttl, whichever is
    /// less
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    kill_after: Option<Duration>,
    /// Leaves the passwords in CMD's environment: LEASEHOLD_PASSWORD, LEASEHOLD_SENTINEL_PASSWORD
    /// and the URL in LEASEHOLD_STORE. A `leasehold` that CMD runs needs them. Without this option,
    /// CMD gets none of them
    #[arg(long)]
    pub(crate) keep_password: bool,
}

impl EndArgs {
    /// The time between TERM and KILL. TERM is sent that long before the lease ends, so a large
    /// part of the ttl would leave no time for renewals.
    pub(crate) fn kill_after(&self, ttl: Duration) -> Result<Duration, Failure> {
        let kill_after = self.kill_after.unwrap_or_else(|| LONGEST_GRACE.min(ttl / 4));
        if kill_after > ttl / 2 {
            return Err(Failure::usage(format!(
                "--kill-after {} is more than half of the ttl: TERM would come before a renewal \
                 had a chance; give at most {}, or a longer --ttl",
                show_duration(kill_after),
                show_duration(ttl / 2)
            )));
        }
        Ok(kill_after)
    }
}

/// The choices for --on-lost: what CMD and its processes get when the lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
pub(crate) enum OnLost {
    /// Nothing: CMD runs on, and others may run beside it
    Ignore,
    /// KILL to CMD and all processes that it has started, at once
    Kill,
    /// TERM (or --signal) to CMD and all processes that it has started, and KILL after --kill-after
    Term,
}
