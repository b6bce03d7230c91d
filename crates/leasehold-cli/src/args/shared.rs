//! Options that several commands have.

use std::time::Duration;

use clap::Args;
use leasehold::lease::Mode;

use super::hold_limits::HoldArgs;
use super::values::{duration, permits, ttl};
use crate::report::{BUSY, Failure, Verbosity};
use crate::store_choice::{Choice, choose};
use crate::store_url::StoreUrl;

/// Options of all commands that use a store: which store, and how much they print.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// Where the locks are: redis://HOST[:PORT][/DB], rediss://… (TLS), redis+unix://PATH,
    /// redis+sentinel://HOST,…/SERVICE, redis+cluster://HOST,…, redis+quorum://HOST,…,
    /// postgres://USER@HOST/DATABASE or file:PATH, with options behind a ? (leasehold man store).
    /// Without this option, it is $LEASEHOLD_STORE, or else the configuration. A password may also
    /// come from $LEASEHOLD_PASSWORD or the file $LEASEHOLD_PASSWORD_FILE, where `ps` does not show
    /// it
    #[arg(short, long, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<StoreUrl>,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

impl StoreArgs {
    /// The store that is used.
    pub(crate) fn choose(&self) -> Result<Choice, Failure> {
        choose(self.store.as_ref())
    }
}

/// Options for taking a lock, and for waiting for it.
#[derive(Args, Debug)]
pub(crate) struct LockArgs {
    /// How long the lease lives. It is renewed every third of this time; after a crash of this
    /// machine, others wait for the rest of it
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// Waits at most this long, instead of for ever. leasehold waits for the lock, and for a store
    /// that is away or grants nothing for a while, but not for a full store
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// Does not wait: if the lock is busy, ends with exit code 75
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Shares the lock with other --shared holders, and excludes all other holders
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,
    /// Takes K of N permits, as in 1/4. All callers must give the same N: a caller with another N
    /// waits until the semaphore is unused
    #[arg(long, value_name = "K/N", value_parser = permits)]
    pub(crate) permits: Option<Mode>,
    /// Shown by `show` and `ls` beside the holder; by default the command that runs, without its
    /// arguments, and $POD_NAME
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) hold: HoldArgs,
    /// The exit code for busy or timed out
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = BUSY)]
    pub(crate) busy_exit: u8,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Options for output that may have tokens.
#[derive(Args, Debug)]
#[command(mut_arg("verbose", |option| option.help("Prints weaknesses of the store on stderr")))]
pub(crate) struct OutputArgs {
    /// Prints JSON; tokens are strings, because they do not fit a double
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Options for output that has no tokens, and to which --verbose adds nothing.
#[derive(Args, Debug)]
#[command(mut_arg("verbose", |option| option.help("Has no effect here")))]
pub(crate) struct PlainOutputArgs {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
