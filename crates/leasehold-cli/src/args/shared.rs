//! Options that several commands have.

use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};
use leasehold::lease::Mode;
use leasehold::time::show_duration;
use leasehold::{LeaseOptions, LockName};
use rustix::process::Signal;

use super::values::{duration, lease_span, name, permits, span, ttl};
use crate::report::{Failure, Verbosity};
use crate::signals::ending_signal;
use crate::store_choice::{Choice, choose};
use crate::store_url::StoreUrl;

// Options of all commands that use a store: which store, and how much they print.
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

// Options for taking a lock, and for waiting for it.
#[derive(Args, Debug)]
pub(crate) struct LockArgs {
    /// The name of the lock, 1 to 512 bytes. With several names, up to 64, all are held or none
    #[arg(required = true, value_name = "NAME", value_parser = name)]
    pub(crate) names: Vec<LockName>,
    /// How long the lease lives. It is renewed every third of this time; after a crash of this
    /// machine, others wait for the rest of it
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// Waits at most this long, instead of for ever. leasehold waits for the lock, and for a store
    /// that is away or grants nothing for a while, but not for a full store
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
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
    /// Keeps the name from others for at least this time from the start, even if the work ends
    /// earlier. For jobs that start on machines with different clocks (alias: --at-least)
    #[arg(long, alias = "at-least", value_name = "DURATION", value_parser = least)]
    min_hold: Option<Limit>,
    /// Ends the work under the lock after this time, and releases the lock, with exit code 76
    /// (alias: --at-most)
    #[arg(long, alias = "at-most", value_name = "DURATION", value_parser = most)]
    pub(crate) max_hold: Option<Limit>,
    /// The exit code for busy or timed out [default: 75], and for done already [default: 0]
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) busy_exit: Option<u8>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl LockArgs {
    /// How long to wait for the lock, and before that for the store; for ever if `None`.
    pub(crate) fn wait(&self) -> Option<Duration> {
        if self.no_wait { Some(Duration::ZERO) } else { self.wait }
    }

    /// The value of --min-hold, if it was given.
    ///
    /// # Errors
    ///
    /// If it is longer than --max-hold.
    pub(crate) fn min_hold(&self) -> Result<Option<Duration>, Failure> {
        if let (Some(least), Some(most)) = (&self.min_hold, &self.max_hold)
            && least.span > most.span
        {
            return Err(Failure::usage(format!("{least} is longer than {most}")));
        }
        Ok(self.min_hold.as_ref().map(|least| least.span))
    }

    /// The requested mode, the same for each name.
    pub(crate) fn mode(&self) -> Mode {
        match self.permits {
            Some(permits) => permits,
            None if self.shared => Mode::Shared,
            None => Mode::Exclusive,
        }
    }
}

// Options for output that may have tokens.
#[derive(Args, Debug)]
#[command(mut_arg("verbose", |option| option.help("Prints weaknesses of the store on stderr")))]
pub(crate) struct OutputArgs {
    /// Prints JSON; tokens are strings, because they do not fit a double
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

// Options for output that has no tokens, and to which --verbose adds nothing.
#[derive(Args, Debug)]
#[command(mut_arg("verbose", |option| option.help("Has no effect here")))]
pub(crate) struct PlainOutputArgs {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// A limit, as it was typed.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    option: &'static str,
    text: String,
    pub(crate) span: Duration,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.text)
    }
}

fn least(text: &str) -> Result<Limit, String> {
    let span = lease_span(text, |it| LeaseOptions { min_hold: Some(it), ..Default::default() })?;
    Ok(Limit { option: "--min-hold", text: text.to_owned(), span })
}

fn most(text: &str) -> Result<Limit, String> {
    Ok(Limit { option: "--max-hold", text: text.to_owned(), span: span(text)? })
}

/// The default time between TERM and KILL: 5 s, as in `consul lock`, or a quarter of the ttl if
/// that is shorter.
const LONGEST_GRACE: Duration = Duration::from_secs(5);

// How a command is ended.
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
