//! `leasehold serve`: shows which locks are held and awaited, and by whom: on a page, as JSON and
//! as metrics.

mod access;
mod answer;
mod api;
mod connections;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod metrics;
mod router;
mod views;

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::Client;
use leasehold::time::SystemClock;
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::access::Access;
use crate::args::Serve;
use crate::commands::doctor::{self, Checkup};
use crate::connection::connect_patiently;
use crate::report::{Failure, Outcome, STORE, Verbosity, escaped};
use crate::runtime::block_on;
use crate::signals::{Signals, is_end};
use crate::store_choice::Choice;
use crate::store_url::StoreUrl;
use crate::watch::{Timekeeper, Watcher};

/// How often the doctor runs: every 5 minutes. It opens a connection to each server, and what it
/// examines seldom changes.
const CHECKUP: Duration = Duration::from_secs(300);

/// The store, the picture of it, and the access that requests need.
#[derive(Debug)]
struct App {
    watcher: Watcher,
    /// The client. Empty until the store was connected to.
    client: OnceLock<Client>,
    url: StoreUrl,
    access: Access,
    /// The last report of the doctor.
    report: watch::Sender<Option<Arc<Checkup>>>,
}

impl App {
    /// The watcher keeps the names that metrics may show: those that begin with one of `kept`.
    fn new(time: Timekeeper, access: Access, url: StoreUrl, kept: &[String]) -> Self {
        Self {
            watcher: Watcher::new(kept.to_vec(), time),
            client: OnceLock::new(),
            url,
            access,
            report: watch::Sender::new(None),
        }
    }
}

/// Serves until a signal comes.
pub(crate) fn serve(args: &Serve) -> Outcome {
    let verbosity = args.store.verbosity;
    let choice = args.store.choose()?;
    let (access, tls) = (Access::new(args)?, connections::acceptor(args)?);
    block_on(async {
        let cannot =
            |error| Failure::new(STORE, format!("{}: cannot listen: {error}", args.listen));
        let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (url, scheme) = (choice.url.to_string(), if tls.is_some() { "https" } else { "http" });
        verbosity.remark(format_args!("watches {} on {scheme}://{address}/", escaped(&url)));
        choice.warn_if_local(verbosity);
        let mut signals = Signals::catch_all()
            .map_err(|error| Failure::new(STORE, format!("cannot catch signals: {error}")))?;
        let time = Timekeeper::new(SystemClock::new());
        let app = Arc::new(App::new(time, access, choice.url.clone(), &args.metrics_names));
        let router = router::router(&app);
        let end = async { while !is_end(signals.next().await) {} };
        tokio::select! {
            ended = watch_store(&app, &choice, verbosity) => ended.map(|never| match never {}),
            never = check_again_and_again(&app) => match never {},
            never = connections::accept(listener, tls, router) => match never {},
            () = end => Ok(0),
        }
    })?
}

/// Connects, even if the store is away for long, and watches it.
async fn watch_store(
    app: &App,
    choice: &Choice,
    verbosity: Verbosity,
) -> Result<Infallible, Failure> {
    let tell = |error: &leasehold::Error| {
        app.watcher.note_trouble(error);
    };
    let client = connect_patiently(choice, verbosity, tell).await?;
    let admin = client.admin();
    let _first = app.client.set(client);
    match app.watcher.run(&admin, |trouble| verbosity.remark(trouble)).await {}
}

/// Runs the doctor again and again.
async fn check_again_and_again(app: &App) -> Infallible {
    loop {
        app.report.send_replace(Some(Arc::new(doctor::report(&app.url).await)));
        tokio::time::sleep(CHECKUP).await;
    }
}
