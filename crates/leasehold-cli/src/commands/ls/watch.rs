//! `leasehold ls --watch`: the list as it is now, again and again until a signal comes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stdout};
use std::pin::pin;
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::Admin;
use leasehold::time::SystemClock;
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::changes::{Change, Shown};
use super::listing::{self, Listing};
use super::screen::Screen;
use crate::args::Ls;
use crate::commands::line::Line;
use crate::commands::totals::{away_in_words, totals_in_words};
use crate::connection::connect;
use crate::moment::local;
use crate::report::{Failure, Outcome, STORE, Voice, escaped, print, print_json};
use crate::runtime::block_on;
use crate::signals::Signals;
use crate::store_choice;
use crate::table::room;
use crate::watch::{Picture, Timekeeper, Update, Watcher};

/// How soon it is looked whether all names have been found, before the first list: 20 ms.
const SOON: Duration = Duration::from_millis(20);

/// What ends it, and the new size of a terminal.
const SIGNALS: [Signal; 5] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::WINCH];

/// How the list is shown.
enum Form {
    /// On a terminal, in its place.
    Screen(Screen),
    /// A line for each change.
    Lines(Shown),
    /// The same as JSON.
    Json(Shown),
}

/// Shows the list until a signal comes, of which it dies as if nobody had caught it.
pub(super) fn watch(args: &Ls) -> Outcome {
    let voice = Voice::from(args.output.voice);
    let choice = store_choice::choose(args.store.store.as_ref())?;
    choice.warn_if_local(voice);
    let signal = block_on(async {
        let signals = Signals::catch(&SIGNALS)
            .map_err(|error| Failure::new(STORE, format!("cannot catch signals: {error}")))?;
        let client = connect(&choice, voice).await?;
        let url = escaped(&choice.url.to_string());
        let ended = show(args, &client.admin(), &url, signals).await;
        client.close().await?;
        ended
    })??;
    Err(Failure::interrupted(signal.as_raw(), String::new()))
}

async fn show(
    args: &Ls,
    admin: &Admin,
    url: &str,
    mut signals: Signals,
) -> Result<Signal, Failure> {
    let watcher = Watcher::new(args.budget, Timekeeper::new(SystemClock::new()));
    let altered = RefCell::new(BTreeSet::new());
    let mut watching = pin!(watcher.run(admin, |update| {
        if let Update::Lock(change) = update {
            altered.borrow_mut().insert(change.name);
        }
    }));
    let (listing, mut form) = (Listing::new(args), Form::of(args));
    let begun = Instant::now();
    let mut due = begun;
    loop {
        let is_first = !watcher.picture().is_whole() && begun.elapsed() < args.interval;
        tokio::select! {
            never = &mut watching => match never {},
            () = sleep_until(due) => due += if is_first { SOON } else { args.interval },
            signal = signals.next() => if signal != Signal::WINCH { return Ok(signal) },
        }
        due = due.max(Instant::now());
        let altered = altered.take();
        form.show(&listing, &watcher.picture(), &altered, watcher.time.now_ms(), url)?;
    }
}

impl Form {
    fn of(args: &Ls) -> Self {
        // A terminal that cannot move its cursor shows lines as a file does.
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        match (args.output.json, stdout().is_terminal() && !is_dumb) {
            (true, _) => Self::Json(Shown::default()),
            (false, true) => Self::Screen(Screen::default()),
            (false, false) => Self::Lines(Shown::default()),
        }
    }

    /// Shows what is known now.
    fn show(
        &mut self,
        listing: &Listing<'_>,
        picture: &Picture,
        altered: &BTreeSet<LockName>,
        now_ms: u64,
        url: &str,
    ) -> Result<(), Failure> {
        let watched = picture.rows().map(|(name, row)| Line::watched(name, row, now_ms));
        let lines = listing.of(watched);
        match self {
            Self::Screen(screen) => draw(screen, listing, &lines, picture, now_ms, url),
            Self::Lines(shown) => {
                say(shown, &lines, picture, altered, now_ms, |change| print(change.text()))
            }
            Self::Json(shown) => {
                say(shown, &lines, picture, altered, now_ms, |change| print_json(change))
            }
        }
    }
}

fn draw(
    screen: &mut Screen,
    listing: &Listing<'_>,
    lines: &[Line],
    picture: &Picture,
    now_ms: u64,
    url: &str,
) -> Result<(), Failure> {
    let words = away_in_words(picture.store(), now_ms);
    let words = words.unwrap_or_else(|| totals_in_words(picture, now_ms));
    let rows = match (lines.is_empty(), picture.is_whole()) {
        (true, false) => "none found yet".to_owned(),
        (true, true) => escaped(&listing.nothing()),
        (false, _) => listing::rows(lines, now_ms, room()),
    };
    screen.draw(&format!("{}  {words}  {url}", local(now_ms, now_ms)), &rows)
}

fn say(
    shown: &mut Shown,
    lines: &[Line],
    picture: &Picture,
    altered: &BTreeSet<LockName>,
    now_ms: u64,
    print: impl Fn(&Change<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if let Some(kind) = shown.store(picture.store()) {
        print(&Change::of_store(kind, picture.store(), now_ms))?;
    }
    for (kind, name, line) in shown.locks(lines, altered) {
        print(&Change::of_lock(kind, &name, line, now_ms))?;
    }
    Ok(())
}
