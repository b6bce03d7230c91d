//! The common part of `run`, `hold`, `elect` and `wait`: a client, the signals, and one lease.

mod acquire;
mod connect;
mod describe;
mod events;
pub(crate) mod reentry;
mod status_line;

use std::time::{Duration, Instant};

use leasehold::admin::Admin;
use leasehold::lease::Mode;
use leasehold::time::show_duration;
use leasehold::{Client, Error, Guard, LeaseOptions, LockName, LossReason};
use rustix::process::{Signal, getpid, kill_process};

use self::acquire::{acquire, requested};
pub(crate) use self::acquire::{label_of_caller, label_of_command, lease_options};
pub(crate) use self::connect::{ask, connect, connect_patiently};
use self::connect::{build, connect_again};
pub(crate) use self::describe::{holders, joined};
use self::events::{LeaseEvents, WaitReason};
use crate::args::LockArgs;
use crate::report::{self, Failure, Outcome, Verbosity};
use crate::signals::{Signals, can_be_continued, is_end, signal_name};
use crate::store_choice::Choice;

/// How long leasehold waits for the store before it exits: 5 s, because the user waits for the
/// prompt. A lease that could not be released by then ends at its deadline.
const FAREWELL: Duration = Duration::from_secs(5);

/// The same wait after a failure: 1 s, because little is left to release, and the store may be out
/// of reach.
const SHORT_FAREWELL: Duration = Duration::from_secs(1);

/// How soon a new lease is renewed again if its first renewal was not answered: 100 ms.
const RENEW_AGAIN: Duration = Duration::from_millis(100);

/// A connection to the store, with its events and this process's signals.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) signals: Signals,
    pub(crate) events: LeaseEvents,
    pub(crate) verbosity: Verbosity,
    opened: Instant,
    /// A lease was granted, so there may be a lease to release at the end.
    has_held: bool,
}

impl Connection {
    /// Connects to the chosen store for a request, and waits if the store is away. Fails directly
    /// if a store of this kind cannot serve the request.
    pub(crate) async fn open_for(args: &LockArgs, choice: &Choice) -> Result<Self, Failure> {
        if choice.url.is_on_quorum() && args.mode() != Mode::Exclusive {
            return Err(Failure::usage(format!(
                "{}: a quorum has neither readers nor permits: use a mutex, or a store with one \
                 primary",
                choice.url
            )));
        }
        Self::open(choice, args.store.verbosity, args.wait()).await
    }

    /// Connects to the chosen store, and waits if the store is away: for ever if `wait` is `None`.
    pub(crate) async fn open(
        choice: &Choice,
        verbosity: Verbosity,
        wait: Option<Duration>,
    ) -> Result<Self, Failure> {
        let opened = Instant::now();
        let mut signals = Signals::catch_all().map_err(|error| {
            Failure::new(report::STORE, format!("cannot catch signals: {error}"))
        })?;
        let events = LeaseEvents::default();
        choice.warn_if_local(verbosity);
        choice.prepare()?;
        let build = async || build(choice, verbosity, events.clone()).await;
        let client = tokio::select! {
            biased;
            signal = interruption(&mut signals) => {
                let why = format!("{} while connecting to {}", signal_name(signal), choice.url);
                Err(Failure::interrupted(signal.as_raw(), why))
            }
            connected = connect_again(choice, verbosity, wait, build) => connected,
        }?;
        Ok(Self { client, signals, events, verbosity, opened, has_held: false })
    }

    /// Acquires one name or several, and meanwhile shows what blocks the request.
    pub(crate) async fn acquire(
        &mut self,
        args: &LockArgs,
        options: LeaseOptions,
    ) -> Result<Guard, Failure> {
        let (asked_at, ttl, client) = (Instant::now(), options.ttl, self.client.clone());
        let lock = requested(&client, args)?.options(options);
        loop {
            // Connecting is a part of the wait.
            let limit = args.wait().map(|wait| wait.saturating_sub(self.opened.elapsed()));
            let acquiring = acquire(&lock, args, limit, &client);
            let guard = self.wait(&args.names, args.mode(), acquiring).await?;
            match self.settle(&guard, ttl, asked_at).await {
                Ok(()) => return Ok(guard),
                // The lease came with the short validity of a hand-over, and ended before a
                // renewal. No work was done under the lease.
                Err(Error::Lost { reason: LossReason::Expired, .. }) => self.has_held = false,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for an acquisition, and meanwhile shows what blocks it.
    pub(crate) async fn wait<T>(
        &mut self,
        names: &[LockName],
        mode: Mode,
        acquiring: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let events = self.events.clone();
        let status = status_line::show(self.client.admin(), names, &events, self.verbosity);
        tokio::select! {
            biased;
            signal = interruption(&mut self.signals) => Err(Failure::interrupted(
                signal.as_raw(),
                format!(
                    "{}: {} while waiting: {}",
                    joined(names),
                    signal_name(signal),
                    given_up(&events, names)
                ),
            )),
            acquired = acquiring => acquired,
            why = own_lease_in_the_way(self.client.admin(), names, mode) => {
                Err(Failure::new(report::BUSY, why))
            }
            never = status => match never {},
        }
    }

    /// Renews a new lease until it is valid for its ttl.
    pub(crate) async fn settle(
        &mut self,
        guard: &Guard,
        ttl: Duration,
        asked_at: Instant,
    ) -> leasehold::Result<()> {
        self.has_held = true;
        // A hand-over may begin with the short validity of its claim window. A guardian that knows
        // only that validity would end the command immediately.
        while guard.validity() < ttl / 4 * 3 {
            match guard.renew().await {
                Ok(_) => break,
                // Either the outage ends, or the lease does.
                Err(Error::Store(error)) if error.kind().is_outage() => {
                    tokio::time::sleep(RENEW_AGAIN).await;
                }
                Err(error) => return Err(error),
            }
        }
        let waited = show_duration(asked_at.elapsed());
        for (name, token) in guard.tokens() {
            self.verbosity
                .detail(format_args!("{name}: held after waiting {waited}, token {token}"));
        }
        Ok(())
    }

    /// Releases all that is still held or awaited, and returns the outcome.
    ///
    /// A failed release is reported only if a lease was held and not lost. A loss was reported
    /// before, and a command that only waited leaves nothing that blocks others.
    pub(crate) async fn close(mut self, outcome: Outcome) -> Outcome {
        let is_lost = *outcome.as_ref().unwrap_or_else(|failure| &failure.exit) == report::LOST;
        let holds = self.has_held && !is_lost;
        let limit = if holds { FAREWELL } else { SHORT_FAREWELL };
        let why = tokio::select! {
            closed = self.client.clone().close() => match closed {
                Ok(()) => return outcome,
                Err(error) => error.to_string(),
            },
            signal = interruption(&mut self.signals) => signal_name(signal),
            () = tokio::time::sleep(limit) => "the store does not answer".to_owned(),
        };
        if holds {
            self.verbosity
                .error(format_args!("could not let go, so the lease ends by itself: {why}"));
        }
        // Dropping the client would wait for the store again.
        std::mem::forget(self.client);
        outcome
    }
}

/// Completes if the request is blocked by a lease under which this process runs: such a wait would
/// not end.
async fn own_lease_in_the_way(admin: Admin, names: &[LockName], mode: Mode) -> String {
    if !reentry::is_nested() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(status_line::PATIENCE).await;
        for name in names {
            if let Ok(status) = admin.inspect(name).await
                && let Some(why) = reentry::waits_for_itself(name, mode, &status)
            {
                return why;
            }
        }
        tokio::time::sleep(status_line::PERIOD).await;
    }
}

/// The end of a message for a user who stops waiting: the place in the queue was given up.
fn given_up(events: &LeaseEvents, names: &[LockName]) -> &'static str {
    match events.wait_reason(names) {
        Some((_, WaitReason::Taken { is_queued: true })) => "left the queue",
        _ => "gave up",
    }
}

/// Completes with the signal that ends the wait. A signal that stops processes stops this one, if
/// another process can continue it.
pub(crate) async fn interruption(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal if is_end(signal) => return signal,
            Signal::TSTP if can_be_continued() => {
                let _continued = kill_process(getpid(), Signal::STOP);
            }
            _ => {}
        }
    }
}
