//! What `run` and `hold` have in common: a client, the signals, and one lease.

use std::time::{Duration, Instant};

use leasehold::{
    Admin, Client, Error, Event, Guard, LeaseOptions, Lock, LockName, Mode, show_duration,
};
use rustix::process::{Signal, getpid, kill_process};

use crate::args::LockArgs;
use crate::heard::{Heard, Wait};
use crate::in_the_way::{holder, in_the_way};
use crate::nested;
use crate::patience::Patience;
use crate::report::{self, Failure, Outcome, Voice};
use crate::signals::{Signals, is_end, signal_name};
use crate::status_line;
use crate::store_choice::Choice;

/// How long the end waits for the store: 5 s. What could not be given back by then ends by its
/// deadline, and the user wants his prompt.
const FAREWELL: Duration = Duration::from_secs(5);

/// The same after a failure: 1 s. Little is left to give back, and the store may be out of reach.
const SHORT_FAREWELL: Duration = Duration::from_secs(1);

/// How much longer than `--at-most` and the time between TERM and KILL a lease lasts: 5 s, for a
/// command that is started late and looked for slowly on a busy machine. What has ended sooner is
/// let go of sooner.
const ENDING: Duration = Duration::from_secs(5);

/// How soon a new lease is renewed again if its first renewal was not answered: 100 ms.
const RENEW_AGAIN: Duration = Duration::from_millis(100);

/// A connection to the store, and what happens meanwhile.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) signals: Signals,
    pub(crate) heard: Heard,
    voice: Voice,
    opened: Instant,
    /// A lease was granted, so there is something to give back at the end.
    has_held: bool,
}

/// The options of a lease, checked. What is done under it is ended after `--at-most`; the lease
/// lasts until that is done, which may take so long.
///
/// # Errors
///
/// The first value that is out of range, before anything is sent.
pub(crate) fn lease_options(
    args: &LockArgs,
    kill_after: Duration,
) -> Result<LeaseOptions, Failure> {
    let mut options = LeaseOptions::default();
    options.ttl = args.ttl;
    options.min_hold = args.hold.least()?;
    options.max_hold = args.hold.most().map(|limit| limit.span() + kill_after + ENDING);
    options.label.clone_from(&args.label);
    options.check()?;
    Ok(options)
}

impl Session {
    /// Connects to the chosen store, and waits for it if it is away.
    pub(crate) async fn open(
        choice: &Choice,
        voice: Voice,
        patience: Patience,
    ) -> Result<Self, Failure> {
        let opened = Instant::now();
        let mut signals = Signals::catch_all().map_err(|error| {
            Failure::new(report::STORE, format!("cannot catch signals: {error}"))
        })?;
        let heard = Heard::default();
        choice.warn_if_local(voice);
        choice.prepare()?;
        let build = async || build(choice, voice, heard.clone()).await;
        let client = tokio::select! {
            biased;
            signal = interruption(&mut signals) => {
                let why = format!("{} while connecting to {}", signal_name(signal), choice.url);
                Err(Failure::interrupted(signal.as_raw(), why))
            }
            connected = patience.connect(choice, voice, build) => connected,
        }?;
        Ok(Self { client, signals, heard, voice, opened, has_held: false })
    }

    /// Acquires one name or several, and says meanwhile what is in the way.
    pub(crate) async fn acquire(
        &mut self,
        names: &[LockName],
        args: &LockArgs,
        options: LeaseOptions,
    ) -> Result<Guard, Failure> {
        let (asked_at, ttl, client) = (Instant::now(), options.ttl, self.client.clone());
        let lock = requested(&client, names, args)?.options(options);
        // Connecting is a part of the wait.
        let limit = args.wait.map(|limit| limit.saturating_sub(self.opened.elapsed()));
        let acquiring = wait_for(&lock, names, args, limit, &client);
        let guard = self.wait(names, mode(args), acquiring).await?;
        self.settle(&guard, ttl, asked_at).await?;
        Ok(guard)
    }

    /// Waits for something that is acquired, and says meanwhile what is in the way.
    pub(crate) async fn wait<T>(
        &mut self,
        names: &[LockName],
        mode: Mode,
        acquiring: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let heard = self.heard.clone();
        let status = status_line::show(self.client.admin(), names, &heard, self.voice);
        tokio::select! {
            biased;
            signal = interruption(&mut self.signals) => Err(Failure::interrupted(
                signal.as_raw(),
                format!(
                    "{}: {} while waiting: {}",
                    joined(names),
                    signal_name(signal),
                    given_up(&heard, names)
                ),
            )),
            acquired = acquiring => acquired,
            why = own_lease_in_the_way(self.client.admin(), names, mode) => {
                Err(Failure::new(report::BUSY, why))
            }
            never = status => match never {},
        }
    }

    /// Makes sure that a new lease is good for its ttl.
    pub(crate) async fn settle(
        &mut self,
        guard: &Guard,
        ttl: Duration,
        asked_at: Instant,
    ) -> Result<(), Failure> {
        self.has_held = true;
        // A hand-over may be entered on the short validity of its claim window, and a guardian that
        // knows no more than that would end the command at once.
        while guard.validity() < ttl / 4 * 3 {
            match guard.renew().await {
                Ok(_) => break,
                // It passes, or the lease does.
                Err(Error::Store(error)) if error.kind().is_outage() => {
                    tokio::time::sleep(RENEW_AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let waited = show_duration(asked_at.elapsed());
        for (name, token) in guard.tokens() {
            self.voice.detail(format_args!("{name}: held after waiting {waited}, token {token}"));
        }
        Ok(())
    }

    /// Gives back whatever is still held or awaited, and passes the outcome on.
    ///
    /// What could not be given back is worth a line only where a lease was held and not lost: after
    /// a loss one line has been said, and who only waited leaves nothing that others wait for.
    pub(crate) async fn close(mut self, outcome: Outcome) -> Outcome {
        let is_lost = match &outcome {
            Ok(exit) => *exit == report::LOST,
            Err(failure) => failure.exit == report::LOST,
        };
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
            self.voice.error(format_args!("could not let go, so the lease ends by itself: {why}"));
        }
        // Dropping it would wait for the store once more.
        std::mem::forget(self.client);
        outcome
    }
}

/// Connects to the chosen store, for who does not wait for it; what is to be heard of it goes to
/// `heard`.
pub(crate) async fn connect(
    choice: &Choice,
    voice: Voice,
    heard: Heard,
) -> Result<Client, Failure> {
    choice.prepare()?;
    Ok(build(choice, voice, heard).await?)
}

async fn build(choice: &Choice, voice: Voice, heard: Heard) -> leasehold::Result<Client> {
    let observe = move |event: &Event<'_>| {
        heard.observe(event);
        match *event {
            Event::Overdue { name, validity, cause, .. } => {
                let left = show_duration(validity);
                voice.detail(format_args!(
                    "{name}: the renewal is overdue, valid for {left}: {cause}"
                ));
            }
            Event::Stalled { late, .. } => {
                voice.detail(format_args!("was woken {} late", show_duration(late)));
            }
            Event::WaitingForCapacity { text, .. } => voice.remark(text),
            // For whoever looks, not for every run of a nightly job.
            Event::Warning { text, .. } => voice.detail(format_args!("warning: {text}")),
            // The rest is told where it happens.
            _ => {}
        }
    };
    Client::builder().url(choice.url.reveal()).observer(observe).build().await
}

/// Names as one text, as the command sees them.
pub(crate) fn joined(names: &[LockName]) -> String {
    names.iter().map(LockName::as_str).collect::<Vec<_>>().join(" ")
}

fn requested(client: &Client, names: &[LockName], args: &LockArgs) -> Result<Lock, Failure> {
    let [name] = names else {
        if args.shared || args.permits.is_some() {
            return Err(Failure::usage(
                "several names are taken exclusively: give --shared and --permits with one name",
            ));
        }
        return Ok(client.all(names));
    };
    Ok(match args.permits {
        Some(Mode::Permits { count, capacity }) => client.semaphore(name, capacity).permits(count),
        _ if args.shared => client.rwlock(name).read(),
        _ => client.mutex(name),
    })
}

/// What is asked for, of each name.
fn mode(args: &LockArgs) -> Mode {
    match args.permits {
        Some(permits) => permits,
        None if args.shared => Mode::Shared,
        None => Mode::Exclusive,
    }
}

/// Completes when it is known that a lease around this process is in its way: that wait would not
/// end.
async fn own_lease_in_the_way(admin: Admin, names: &[LockName], mode: Mode) -> String {
    if !nested::is_nested() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(status_line::PATIENCE).await;
        for name in names {
            if let Ok(status) = admin.inspect(name).await
                && let Some(why) = nested::waits_for_itself(name, mode, &status)
            {
                return why;
            }
        }
        tokio::time::sleep(status_line::PERIOD).await;
    }
}

async fn wait_for(
    lock: &Lock,
    names: &[LockName],
    args: &LockArgs,
    limit: Option<Duration>,
    client: &Client,
) -> Result<Guard, Failure> {
    let granted = match (args.no_wait, limit) {
        (true, _) => match lock.try_acquire().await? {
            Some(guard) => Ok(guard),
            None => return Err(busy(names, args, client).await),
        },
        (false, Some(limit)) => lock.acquire_within(limit).await,
        (false, None) => lock.acquire().await,
    };
    granted.map_err(|error| match error {
        Error::Timeout { name, waited, holder: first, others, .. } => {
            let by = first.map(|first| format!(", {}", holder(&first, others as usize)));
            let (waited, by) = (show_duration(waited), by.unwrap_or_default());
            Failure::expected(args.busy_exit, format!("{name}: still busy after {waited}{by}"))
        }
        other => other.into(),
    })
}

async fn busy(names: &[LockName], args: &LockArgs, client: &Client) -> Failure {
    // It may be free again by now, or the store may not say: that it was busy is what counts.
    for name in names {
        let status = client.admin().inspect(name).await.unwrap_or_default();
        if let Some(why) = in_the_way(mode(args), &status) {
            return Failure::expected(args.busy_exit, format!("{name} is busy: {why}"));
        }
    }
    Failure::expected(args.busy_exit, format!("{} is busy", joined(names)))
}

/// What came of the place in the queue, for whoever does not want to wait any more.
fn given_up(heard: &Heard, names: &[LockName]) -> &'static str {
    match heard.wait(names) {
        Some((_, Wait::Taken { is_queued: true })) => "left the queue",
        Some((_, Wait::Taken { is_queued: false } | Wait::Trouble { .. })) | None => "gave up",
    }
}

/// The signal that ends the waiting. One that stops does stop.
async fn interruption(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal if is_end(signal) => return signal,
            Signal::TSTP => {
                let _continued = kill_process(getpid(), Signal::STOP);
            }
            _ => {}
        }
    }
}
