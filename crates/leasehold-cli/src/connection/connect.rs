//! Connecting to a store, and how long a command waits at its start for a store that is away.

use std::time::Duration;

use leasehold::event::Event;
use leasehold::time::show_duration;
use leasehold::{Client, Error};
use tokio::time::{Instant, sleep, timeout_at};

use super::events::LeaseEvents;
use super::status_line;
use crate::report::{Failure, STORE, Verbosity};
use crate::runtime::block_on;
use crate::store_choice::Choice;

/// The least time for connecting, even if the wait for the lock is shorter: 2 s, as for a try of
/// the library.
const LEAST: Duration = Duration::from_secs(2);

/// The pause between two tries to connect: 250 ms, as for a waiter that dials a lost server.
const PAUSE: Duration = Duration::from_millis(250);

/// Connects to a store, and tries again while it is away and the wait is not over. Prints a remark
/// once, and again when the reason changes. Trouble that does not pass by itself ends the tries
/// immediately. A store that is slow to answer gets the least time, even from a command that does
/// not wait.
pub(super) async fn connect_again(
    choice: &Choice,
    verbosity: Verbosity,
    wait: Option<Duration>,
    connect: impl AsyncFn() -> Result<Client, Error>,
) -> Result<Client, Failure> {
    let begun = Instant::now();
    let mut last = None;
    loop {
        let attempt = async {
            tokio::select! {
                outcome = connect() => outcome,
                never = status_line::connecting(&choice.url, verbosity) => match never {},
            }
        };
        let outcome = match wait.map(|wait| wait.max(LEAST)) {
            None => attempt.await,
            Some(limit) => timeout_at(begun + limit, attempt).await.map_err(|_| {
                let span = show_duration(limit);
                // A port without TLS cannot read the TLS greeting, and waits for more bytes.
                let hint = match choice.url.is_tls() {
                    true => ": if this is a port without TLS, use redis://",
                    false => "",
                };
                let why = || format!("{}: no answer within {span}{hint}", choice.url);
                Failure::new(STORE, last.take().unwrap_or_else(why))
            })?,
        };
        let error = match outcome {
            Ok(client) => return Ok(client),
            Err(Error::Store(error)) if error.kind().is_outage() => error,
            Err(error) => return Err(error.into()),
        };
        let lasts = wait.is_none_or(|wait| begun.elapsed() + PAUSE < wait);
        // An obstacle to opening a file does not pass by itself.
        if !lasts || !choice.url.is_on_servers() {
            return Err(Error::Store(error).into());
        }
        let why = error.to_string();
        if last.as_ref() != Some(&why) {
            verbosity.remark(format_args!("waits for the store: {why}"));
        }
        last = Some(why);
        sleep(PAUSE).await;
    }
}

/// Connects to the chosen store once, for a command that does not wait.
pub(crate) async fn connect(choice: &Choice, verbosity: Verbosity) -> Result<Client, Failure> {
    choice.prepare()?;
    Ok(build(choice, verbosity, LeaseEvents::default()).await?)
}

/// Runs one request on the chosen store, for a command that does not wait.
pub(crate) fn ask<T>(
    choice: &Choice,
    verbosity: Verbosity,
    question: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    block_on(async {
        let client = connect(choice, verbosity).await?;
        let answer = question(&client).await;
        let closed = client.close().await;
        let answer = answer?;
        closed?;
        Ok(answer)
    })?
}

/// Connects to the chosen store, even if it is away for long, and calls `tell` with each new
/// reason.
pub(crate) async fn connect_patiently(
    choice: &Choice,
    verbosity: Verbosity,
    tell: impl Fn(&Error),
) -> Result<Client, Failure> {
    choice.prepare()?;
    let connecting = async || {
        let built = build(choice, verbosity, LeaseEvents::default()).await;
        built.inspect_err(|error| tell(error))
    };
    connect_again(choice, verbosity, None, connecting).await
}

/// Connects to the chosen store. The client notes its events and prints those that a user should
/// see.
pub(super) async fn build(
    choice: &Choice,
    verbosity: Verbosity,
    events: LeaseEvents,
) -> leasehold::Result<Client> {
    let observe = move |event: &Event<'_>| {
        events.note(event);
        match *event {
            Event::Overdue { lease, validity, cause, .. } => {
                let (name, left) = (lease.name, show_duration(validity));
                verbosity.detail(format_args!(
                    "{name}: the renewal is overdue, valid for {left}: {cause}"
                ));
            }
            Event::RoundTrip { away: Some(away), .. } => {
                let away = show_duration(away);
                verbosity.detail(format_args!("the store answers again, after {away}"));
            }
            // Warnings are printed only with `-v`, not in every run of a nightly job. If a command
            // holds for long, it prints one of them (`take_warning`).
            Event::Warning { text, .. } => verbosity.detail(format_args!("warning: {text}")),
            // Other events are reported where they happen.
            _ => {}
        }
    };
    let mut built = choice.secrets.client(&choice.url, Client::builder().observer(observe)).await;
    if let Err(Error::Invalid(wrong)) = &mut built {
        wrong.why = format!("{}: {}", choice.because, wrong.why);
    }
    built
}
