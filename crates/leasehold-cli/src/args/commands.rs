//! The arguments of each command. A doc comment on a struct here would replace the description of
//! its command, because the arguments are defined later (`defer`).

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use leasehold::admin::LeaseId;
use leasehold::{FencingToken, LockName};
use rustix::process::Pid;

use super::shared::{EndArgs, LockArgs, OutputArgs, PlainOutputArgs, StoreArgs};
use super::values::{duration, listen, name, once_per, pid, span, ttl};

#[derive(Args, Debug)]
// `mut_arg` would put the names behind CMD.
#[command(mut_args(|argument| match argument.get_id() == "names" {
    true => argument.help(
        "The name of the lock, 1 to 512 bytes. With several names, up to 64, all are held or \
         none. Write a name that begins with `-` between two `--`, as in `run -- -NAME -- CMD`"
    ),
    false => argument,
}))]
pub(crate) struct Run {
    /// Runs CMD only if no run of NAME has succeeded that began less than this long ago. All
    /// machines and the clock of the store count. Otherwise a line says who did it, and the exit
    /// code is 0, or that of -E. A run succeeds if CMD ends with 0 under the lease. Any other run
    /// leaves nothing, so the next one starts at once
    #[arg(long, value_name = "DURATION", value_parser = once_per)]
    pub(crate) once_per: Option<Duration>,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) end: EndArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Hold {
    /// Releases the lock also when the process with this number ends, as in `--pid $$`
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub(crate) pid: Option<Pid>,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct Elect {
    /// The name of the election
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    /// Becomes a candidate, and announces this value while leading (no control characters). Without
    /// CMD, prints one line of JSON once it leads, and leads until stdin ends or a signal comes, as
    /// `hold` does
    #[arg(long, value_name = "TEXT", group = "what")]
    pub(crate) value: Option<String>,
    /// Prints a line for every change until a signal comes, also when the store is lost or comes
    /// back
    #[arg(long, group = "what")]
    pub(crate) listen: bool,
    /// Prints the leader's value; exit code 1 if nobody leads
    #[arg(long, group = "what")]
    pub(crate) show: bool,
    /// With --listen or --show, prints JSON; tokens are strings, because they do not fit a double
    #[arg(long, conflicts_with = "value")]
    pub(crate) json: bool,
    /// Keeps this file for probes. The file says `stands by` once the store was reached, and
    /// `leads` while leading. It is removed after a loss, and at the end. If leasehold is killed,
    /// the file is removed with CMD, and stays without CMD
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "show"])]
    pub(crate) ready_file: Option<PathBuf>,
    /// How long other candidates wait after the leader has crashed
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = "30s")]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The command that runs while leading, and its arguments
    #[arg(last = true, conflicts_with_all = ["listen", "show"], value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Only names that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Only names whose oldest hold has lasted for longer than this. For locks that programs in
    /// other languages hold, that time is not known
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) held_longer_than: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The name of the lock
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    /// Checks that the lease with this token holds the lock now, and that nobody has asked its
    /// holder to stop. If not, the exit code is 1. Use it as a probe of a holder
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<FencingToken>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Only names that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// The name of the lock
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    /// The token that `show` printed, or the holder's own, or the holder's id: only that lease is
    /// revoked
    ///
    /// The token of a fresh lease is shown after 100 ms, the holder's id (`show --json`) from the
    /// first moment. A program may pass a lease on among its tasks. `show` and `revoke` know a task
    /// once it has had the lease for 100 ms. From then on, `revoke` refuses the token of the task
    /// before.
    #[arg(value_name = "TOKEN|HOLDER")]
    pub(crate) lease: LeaseId,
    /// Ends the lease now, without waiting for its holder. Two holders may then work at the same
    /// time for a while
    #[arg(long, action = ArgAction::SetTrue)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Args, Debug)]
pub(crate) struct Schema {
    /// Runs the SQL, as the role of the store URL, instead of printing it
    #[arg(long)]
    pub(crate) install: bool,
    /// A role that takes, lists and revokes locks
    #[arg(long, value_name = "ROLE")]
    pub(crate) holder: Vec<String>,
    /// A role that calls `fence` in its own transactions
    #[arg(long, value_name = "ROLE")]
    pub(crate) fencer: Vec<String>,
    /// A role that calls `release_at_commit` in its own transactions
    #[arg(long, value_name = "ROLE")]
    pub(crate) releaser: Vec<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Ends with exit code 1 for warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) output: PlainOutputArgs,
}

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
    /// Gives the lock back after this time, if nobody has done so before. Give this option, --pid
    /// or both
    #[arg(long = "for", value_name = "DURATION", value_parser = span, group = "until")]
    pub(crate) for_span: Option<Duration>,
    /// Gives the lock back when the process with this number ends, as in `--pid $$`
    #[arg(long, value_name = "PID", value_parser = pid, group = "until")]
    pub(crate) pid: Option<Pid>,
    /// Writes to this file, instead of the machine's log, if the lease is lost, or is released
    /// because of a signal or the end of `--for`
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Prints one line of JSON: the handle, the names and their tokens, the holder, and until when
    /// it holds. Tokens are strings, because they do not fit a double
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

#[derive(Args, Debug)]
pub(crate) struct Give {
    /// The handle that `take` printed
    #[arg(value_name = "HANDLE")]
    pub(crate) handle: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

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

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen. An address that other machines can reach needs --token-file
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9740",
        value_parser = listen
    )]
    pub(crate) listen: SocketAddr,
    /// Lets users with the token revoke leases
    #[arg(long, requires = "token_file")]
    pub(crate) allow_revoke: bool,
    /// The file with the token, 16 characters or more, which people type and programs send as
    /// `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Answers by TLS only, with the certificates in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the first certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A name of this machine that requests may be addressed to, besides its host name, localhost
    /// and addresses
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Lets metrics show the locks whose names begin with this, up to 1000 of them
    #[arg(long, value_name = "PREFIX", num_args = 1..)]
    pub(crate) metrics_names: Vec<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
