//! `leasehold ls --watch`: keeps the list up to date until a signal comes. On a terminal, shows it
//! as `top` does; otherwise prints a line for each change.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stdin, stdout};
use std::pin::pin;
use std::time::Duration;

use leasehold::admin::Admin;
use leasehold::time::SystemClock;
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::asked;
use super::changes::Shown;
use crate::args::Ls;
use crate::commands::lock_line::LockLine;
use crate::commands::top::{self, Live};
use crate::connection::{ask, interruption};
use crate::report::{Failure, Outcome, STORE, print, print_json};
use crate::signals::Signals;
use crate::watch::{Timekeeper, Update, Watcher};

/// The pause between two checks for the first list, which waits until all names are found: 20 ms.
const SOON: Duration = Duration::from_millis(20);

/// Shows the list until a signal comes, and then ends by that signal as if it had not been caught.
pub(super) fn watch(args: &Ls) -> Outcome {
    // For a terminal that cannot move its cursor, lines are printed as for a file.
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !args.output.json && !is_dumb && stdin().is_terminal() && stdout().is_terminal() {
        return top::show_live(Live {
            store: &args.output.store,
            listing: asked(args),
            interval: args.interval,
            budget: args.budget,
        });
    }
    let choice = args.output.store.choose()?;
    choice.warn_if_local(args.output.store.verbosity);
    let signal = ask(&choice, args.output.store.verbosity, async |client| {
        let signals = Signals::catch_all()
            .map_err(|error| Failure::new(STORE, format!("cannot catch signals: {error}")))?;
        say_changes(args, &client.admin(), signals).await
    })?;
    Err(Failure::interrupted(signal.as_raw(), String::new()))
}

async fn say_changes(args: &Ls, admin: &Admin, mut signals: Signals) -> Result<Signal, Failure> {
    let watcher = Watcher::new(args.budget, Timekeeper::new(SystemClock::new()));
    let altered = RefCell::new(BTreeSet::new());
    let mut watching = pin!(watcher.run(admin, |update| {
        if let Update::Lock(change) = update {
            altered.borrow_mut().insert(change.name);
        }
    }));
    let mut ended = pin!(interruption(&mut signals));
    let (listing, mut shown) = (asked(args), Shown::default());
    let begun = Instant::now();
    let mut due = begun;
    loop {
        let is_first = !watcher.picture().is_whole() && begun.elapsed() < args.interval;
        tokio::select! {
            never = &mut watching => match never {},
            () = sleep_until(due) => due += if is_first { SOON } else { args.interval },
            signal = &mut ended => return Ok(signal),
        }
        due = due.max(Instant::now());
        let (picture, now_ms) = (watcher.picture(), watcher.time.now_ms());
        let watched =
            picture.rows().map(|(name, row)| LockLine::new(name.clone(), row.clone(), now_ms));
        let lines = listing.of(watched);
        for change in shown.changes(&lines, &altered.take(), picture.store(), now_ms) {
            match args.output.json {
                true => print_json(&change)?,
                false => print(change.text())?,
            }
        }
    }
}
