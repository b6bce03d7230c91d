//! The arguments of the commands that take a lease, and give it back later.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold::LockName;
use rustix::process::Pid;

use super::shared::{LockArgs, StoreArgs};
use super::values::{name, pid, span};

/// Arguments of `take`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("until").required(true).multiple(true))]
#[command(mut_arg("label", |option| option.help(
    "Shown by `show` and `ls` beside the holder, with who has taken the lock and until when"
)))]
#[command(mut_arg("max_hold", |option| option.hide(true)))]
#[command(mut_arg("min_hold", |option| option.help(
    "Nobody else gets the name before this time is over, even if it is given back before"
)))]
pub(crate) struct Take {
    /// The name of the lock, 1 to 512 bytes; of several, up to 64, all are held or none
    #[arg(required = true, value_name = "NAME", value_parser = name)]
    pub(crate) names: Vec<LockName>,
    /// Gives the lock back after this time, if nobody has done so before; give this, --pid or both
    #[arg(long = "for", value_name = "DURATION", value_parser = span, group = "until")]
    pub(crate) for_span: Option<Duration>,
    /// Gives the lock back when the process with this number ends, as in `--pid $$`
    #[arg(long, value_name = "PID", value_parser = pid, group = "until")]
    pub(crate) pid: Option<Pid>,
    /// A file, instead of the machine's log, for the line about a lease that is lost, or is
    /// released early because of a signal
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Prints one line of JSON: the handle, the names and their tokens, the holder, until when;
    /// tokens are strings, because they do not fit a double
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

/// Arguments of `give`.
#[derive(Args, Debug)]
pub(crate) struct Give {
    /// What `take` printed
    #[arg(value_name = "HANDLE")]
    pub(crate) handle: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `renew`.
#[derive(Args, Debug)]
pub(crate) struct Renew {
    /// What `take` printed
    #[arg(value_name = "HANDLE")]
    pub(crate) handle: String,
    /// Gives the lock back after this time, counted from now; replaces the limit before
    #[arg(long = "for", value_name = "DURATION", value_parser = span, required = true)]
    pub(crate) for_span: Duration,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
