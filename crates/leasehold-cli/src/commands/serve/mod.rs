//! `leasehold serve`: shows which locks are held and awaited, and by whom: on a page, as JSON and
//! as metrics.

mod access;
mod answer;
mod api;
mod app;
mod assets;
mod authorize;
mod connections;
mod events;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod login;
mod metrics;
mod push_events;
mod router;
mod sessions;
mod tls;
mod views;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use leasehold::time::SystemClock;
use tokio::net::TcpListener;

use self::access::Access;
use self::app::App;
use crate::args::Serve;
use crate::commands::doctor;
use crate::connection::connect_patiently;
use crate::report::{Failure, Outcome, STORE, Verbosity, escaped};
use crate::runtime::block_on;
use crate::signals::{Signals, is_end};
use crate::store_choice::Choice;
use crate::watch::{KEYS_PER_SECOND, Timekeeper, Watcher};

/// How often listeners get the present state: every 2 seconds. This also shows them that the
/// connection lives.
const STATE: Duration = Duration::from_secs(2);

/// How often the doctor runs: every 5 minutes. It opens a connection to each server, and what it
/// examines seldom changes.
const CHECKUP: Duration = Duration::from_secs(300);

/// Serves until a signal comes.
pub(crate) fn serve(args: &Serve) -> Outcome {
    let verbosity = args.store.verbosity;
    let choice = args.store.choose()?;
    let (access, tls) = (Access::new(args)?, tls::acceptor(args)?);
    block_on(async {
        let cannot =
            |error| Failure::new(STORE, format!("{}: cannot listen: {error}", args.listen));
        let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        verbosity.remark(format_args!("watches {} on {scheme}://{address}/", escaped_url(&choice)));
        choice.warn_if_local(verbosity);
        let signals = Signals::catch_all()
            .map_err(|error| Failure::new(STORE, format!("cannot catch signals: {error}")))?;
        let (names, time) = (args.metrics_names.clone(), Timekeeper::new(SystemClock::new()));
        let watcher = Watcher::keeping(names, KEYS_PER_SECOND, time);
        let access = access.at(address, tls.is_some());
        let app = Arc::new(App::new(watcher, access, choice.url.clone(), &args.metrics_names));
        let router = router::router(&app);
        tokio::select! {
            ended = watch(&app, &choice, verbosity) => ended.map(|never| match never {}),
            never = check_again_and_again(&app) => match never {},
            never = tell_state(&app) => match never {},
            never = connections::accept(listener, tls, router) => match never {},
            () = end(signals) => Ok(0),
        }
    })?
}

fn escaped_url(choice: &Choice) -> String {
    escaped(&choice.url.to_string())
}

/// Connects, even if the store is away for long, and watches it.
async fn watch(app: &App, choice: &Choice, verbosity: Verbosity) -> Result<Infallible, Failure> {
    let tell = |error: &leasehold::Error| {
        if app.watcher.note_trouble(error) {
            push_events::push_state(app);
        }
    };
    let client = connect_patiently(choice, verbosity, tell).await?;
    let admin = client.admin();
    let _first = app.client.set(client);
    match app.watcher.run(&admin, |news| push_events::push(app, news)).await {}
}

/// Runs the doctor again and again.
async fn check_again_and_again(app: &App) -> Infallible {
    loop {
        app.report.send_replace(Some(Arc::new(doctor::report(&app.url).await)));
        tokio::time::sleep(CHECKUP).await;
    }
}

async fn tell_state(app: &App) -> Infallible {
    loop {
        tokio::time::sleep(STATE).await;
        push_events::push_state(app);
    }
}

/// Waits for a signal that ends this process.
async fn end(mut signals: Signals) {
    while !is_end(signals.next().await) {}
}
