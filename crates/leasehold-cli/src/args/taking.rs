//! The arguments of `take`, `give` and `renew`.

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
    "Keeps the name from others for at least this time, even if the lock is given back earlier"
)))]
pub(crate) struct Take {
    /// The name of the lock, 1 to 512 bytes. With several names, up to 64, all are held or none
    #[arg(required = true, value_name = "NAME", value_parser = name)]
    pub(crate) names: Vec<LockName>,
    /// Gives the lock back after this time, if nobody has done so before. Give this option, --pid
    /// or both
    #[arg(long = "for", value_name = "DURATION", value_parser = span, group = "until")]
    pub(crate) for_span: Option<Duration>,
    /// Gives the lock back when the process with this number ends, as in `--pid $$`
    #[arg(long, value_name = "PID", value_parser = pid, group = "until")]
    pub(crate) pid: Option<Pid>,
    /// Writes to this file, instead of the machine's log, if the lease is lost, or is released
    /// early because of a signal
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Prints one line of JSON: the handle, the names and their tokens, the holder, and until when
    /// it holds. Tokens are strings, because they do not fit a double
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

/// Arguments of `give`.
#[derive(Args, Debug)]
pub(crate) struct Give {
    /// The handle that `take` printed
    #[arg(value_name = "HANDLE")]
    pub(crate) handle: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments of `renew`.
#[derive(Args, Debug)]
pub(crate) struct Renew {
    /// The handle that `take` printed
    #[arg(value_name = "HANDLE")]
    pub(crate) handle: String,
    /// Gives the lock back after this time, counted from now. This replaces the earlier limit
    #[arg(long = "for", value_name = "DURATION", value_parser = span, required = true)]
    pub(crate) for_span: Duration,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
