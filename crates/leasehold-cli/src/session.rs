//! What `run` and `hold` have in common: a client, the signals, and one lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Client, Error, Event, Guard, Holder, LeaseOptions, Lock, Mode, show_duration};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::Notify;

use crate::args::LockArgs;
use crate::report::{self, Failure, Outcome, Voice};
use crate::signals::{Signals, signal_name};
use crate::status_line;
use crate::store_choice::Choice;

/// How long the end waits for the store: 5 s. What could not be given back by then ends by its
/// deadline, and the user wants his prompt.
const FAREWELL: Duration = Duration::from_secs(5);

/// The same after a failure: 1 s. Little is left to give back, and the store may be out of reach.
const SHORT_FAREWELL: Duration = Duration::from_secs(1);

/// A connection to the store, and what happens meanwhile.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) signals: Signals,
    /// Rung when the lease was renewed.
    pub(crate) renewed: Arc<Notify>,
    voice: Voice,
}

/// The options of a lease, checked.
///
/// # Errors
///
/// The first value that is out of range, before anything is sent.
pub(crate) fn lease_options(args: &LockArgs) -> Result<LeaseOptions, Failure> {
    let mut options = LeaseOptions::default();
    options.ttl = args.ttl;
    options.max_hold = args.max_hold;
    options.label.clone_from(&args.label);
    options.check()?;
    Ok(options)
}

impl Session {
    /// Connects to the chosen store.
    pub(crate) async fn open(choice: &Choice, voice: Voice) -> Result<Self, Failure> {
        let signals = Signals::catch_all().map_err(|error| {
            Failure::new(report::STORE, format!("cannot catch signals: {error}"))
        })?;
        let renewed = Arc::new(Notify::new());
        let client = connect(choice, voice, Arc::clone(&renewed)).await?;
        Ok(Self { client, signals, renewed, voice })
    }

    /// Acquires, and shows meanwhile on a terminal who is in the way.
    pub(crate) async fn acquire(
        &mut self,
        args: &LockArgs,
        options: LeaseOptions,
    ) -> Result<Guard, Failure> {
        let asked_at = Instant::now();
        let ttl = options.ttl;
        let lock = requested(&self.client, args).options(options);
        let status = status_line::show(self.client.admin(), args.name.clone(), self.voice);
        let granted = tokio::select! {
            biased;
            signal = interruption(&mut self.signals) => Err(Failure::new(
                report::by_signal(signal.as_raw()),
                format!("{}: {} while waiting: left the queue", args.name, signal_name(signal)),
            )),
            granted = wait_for(&lock, args, &self.client) => granted,
            never = status => match never {},
        };
        let guard = granted?;
        // A hand-over may be entered on the short validity of its claim window, and a guardian that
        // knows no more than that would end the command at once.
        if guard.validity() < ttl / 4 * 3 {
            guard.renew().await?;
        }
        let (name, token) = (guard.name(), guard.token());
        let waited = show_duration(asked_at.elapsed());
        self.voice.detail(format_args!("{name}: held after waiting {waited}, token {token}"));
        Ok(guard)
    }

    /// Gives back whatever is still held or awaited, and passes the outcome on.
    ///
    /// What could not be given back is worth a line only to whoever held it to the end: after a
    /// loss or another failure one line has been said, and nobody expects more of the store.
    pub(crate) async fn close(mut self, outcome: Outcome) -> Outcome {
        let failed = matches!(&outcome, Ok(report::LOST) | Err(_));
        let limit = if failed { SHORT_FAREWELL } else { FAREWELL };
        let why = tokio::select! {
            closed = self.client.close() => match closed {
                Ok(()) => return outcome,
                Err(error) => error.to_string(),
            },
            signal = interruption(&mut self.signals) => signal_name(signal),
            () = tokio::time::sleep(limit) => "the store does not answer".to_owned(),
        };
        if !failed {
            self.voice.say(format_args!("could not let go, so the lease ends by itself: {why}"));
        }
        outcome
    }
}

/// Connects to the chosen store; `renewed` is rung at every renewal.
pub(crate) async fn connect(
    choice: &Choice,
    voice: Voice,
    renewed: Arc<Notify>,
) -> Result<Client, Failure> {
    choice.prepare(voice)?;
    let observe = move |event: &Event<'_>| match *event {
        Event::Overdue { name, validity, .. } => {
            let left = show_duration(validity);
            voice.detail(format_args!("{name}: the renewal is overdue, valid for {left}"));
        }
        Event::Renewed { .. } => renewed.notify_one(),
        Event::Stalled { late } => {
            voice.detail(format_args!("was woken {} late", show_duration(late)));
        }
        // For whoever looks, not for every run of a nightly job.
        Event::Warning { text } => voice.detail(format_args!("warning: {text}")),
        // The rest is told where it happens.
        _ => {}
    };
    Ok(Client::builder().url(&choice.url).observer(observe).build().await?)
}

fn requested(client: &Client, args: &LockArgs) -> Lock {
    match args.permits {
        Some(Mode::Permits { count, capacity }) => {
            client.semaphore(&args.name, capacity).permits(count)
        }
        Some(Mode::Exclusive | Mode::Shared) | None if args.shared => {
            client.rwlock(&args.name).read()
        }
        Some(Mode::Exclusive | Mode::Shared) | None => client.mutex(&args.name),
    }
}

async fn wait_for(lock: &Lock, args: &LockArgs, client: &Client) -> Result<Guard, Failure> {
    let granted = match (args.no_wait, args.wait) {
        (true, _) => match lock.try_acquire().await? {
            Some(guard) => Ok(guard),
            None => return Err(busy(args, client).await),
        },
        (false, Some(limit)) => lock.acquire_within(limit).await,
        (false, None) => lock.acquire().await,
    };
    granted.map_err(|error| match error {
        Error::Timeout { .. } => Failure::new(args.busy_exit, error.to_string()),
        other => other.into(),
    })
}

async fn busy(args: &LockArgs, client: &Client) -> Failure {
    // It may be free again by now, or the store may not say: that it was busy is what counts.
    let status = client.admin().inspect(&args.name).await.unwrap_or_default();
    let by = holders(&status.holders).map(|by| format!(": held by {by}")).unwrap_or_default();
    Failure::new(args.busy_exit, format!("{} is busy{by}", args.name))
}

/// Says who holds a lock, and for how long the first of them.
pub(crate) fn holders(holders: &[Holder]) -> Option<String> {
    let (first, others) = holders.split_first()?;
    let label = first.facts.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    let others = match others.len() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let (host, pid) = (&first.facts.host, first.facts.pid);
    Some(format!("{host}:{pid}{label} for {}{others}", show_duration(first.held_for)))
}

/// The signal that ends the waiting. One that stops does stop; the others are for a command that
/// does not run yet.
async fn interruption(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal @ (Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM) => return signal,
            Signal::TSTP => {
                let _continued = kill_process(getpid(), Signal::STOP);
            }
            _ => {}
        }
    }
}
