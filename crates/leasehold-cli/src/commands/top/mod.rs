//! `leasehold top`: who holds and awaits what, live in the terminal.

mod screen;
mod view;

use std::io::{self, IsTerminal as _, stdin, stdout};
use std::pin::pin;
use std::thread;
use std::time::Duration;

use leasehold::admin::Admin;
use leasehold::time::SystemClock;
use leasehold::{FencingToken, LockName};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{DefaultTerminal, Terminal};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use self::view::{Demand, View};
use super::lock_line::Listing;
use crate::args::{StoreArgs, Top};
use crate::connection::ask;
use crate::report::{Failure, Outcome, STORE, USAGE};
use crate::terminal::is_cooked;
use crate::watch::{Timekeeper, Watcher};

/// Which locks are shown, and how often anew.
#[derive(Debug)]
pub(super) struct Live<'a> {
    pub(super) store: &'a StoreArgs,
    pub(super) listing: Listing,
    pub(super) interval: Duration,
    pub(super) budget: u32,
}

/// Shows the locks of the store until somebody quits.
pub(crate) fn top(args: &Top) -> Outcome {
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        let why = "`leasehold top` needs a terminal: for programs there is `leasehold ls --json`";
        return Err(Failure::new(USAGE, why));
    }
    show_live(Live {
        store: &args.store,
        listing: Listing { prefix: args.prefix.clone(), sort: args.sort, ..Listing::default() },
        interval: args.interval,
        budget: args.budget,
    })
}

/// Shows them on this terminal.
pub(super) fn show_live(live: Live<'_>) -> Outcome {
    let choice = live.store.choose()?;
    ask(&choice, live.store.verbosity, async |client| {
        let mut terminal = ratatui::try_init().map_err(broken)?;
        let shown = show(live, client.admin(), choice.url.to_string(), &mut terminal).await;
        ratatui::restore();
        shown
    })?;
    Ok(0)
}

async fn show(
    live: Live<'_>,
    admin: Admin,
    store: String,
    terminal: &mut DefaultTerminal,
) -> Result<(), Failure> {
    let watcher = Watcher::new(live.budget, Timekeeper::new(SystemClock::new()));
    let mut watching = pin!(watcher.run(&admin, |_| {}));
    let mut view = View::new(store, live.listing);
    let mut typed = typed();
    let (answer, mut answers) = unbounded_channel();
    let mut ended = signal(SignalKind::terminate()).map_err(broken)?;
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw())).map_err(broken)?;
    let mut ticks = interval(live.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        view.refresh(&watcher.picture(), watcher.time.now_ms());
        terminal.draw(|frame| screen::draw(frame, &view)).map_err(broken)?;
        tokio::select! {
            never = &mut watching => match never {},
            _ = ticks.tick() => {}
            Some(words) = answers.recv() => view.tell(words),
            _ = ended.recv() => {
                return Err(Failure::interrupted(Signal::TERM.as_raw(), String::new()));
            }
            _ = continued.recv() => resume(terminal).map_err(broken)?,
            event = typed.recv() => {
                // Without a terminal there is nobody to show anything to.
                let Some(event) = event else { return Ok(()) };
                match view.typed(&event) {
                    Some(Demand::Quit) => return Ok(()),
                    Some(Demand::Suspend) => suspend(terminal).map_err(broken)?,
                    Some(Demand::Revoke { name, token }) => {
                        revoke(admin.clone(), name, token, answer.clone());
                    }
                    None => {}
                }
            }
        }
    }
}

/// Stops this process and those with it in its job, with the terminal as it was before. Returns
/// once they are continued.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    ratatui::restore();
    // The signal stops this thread before the call returns, unless no process could continue it.
    rustix::process::kill_current_process_group(Signal::TSTP)?;
    resume(terminal)
}

/// Takes the screen again, whatever others have made of the terminal meanwhile. Where the terminal
/// is raw, it stays so: a Ctrl-Z in between would stop this process with the screen still taken.
fn resume(terminal: &mut DefaultTerminal) -> io::Result<()> {
    if is_cooked(stdin()) {
        // This has crossterm forget how the terminal was when it was asked for last.
        disable_raw_mode()?;
        enable_raw_mode()?;
    }
    execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
    // A new one draws all. `Terminal::clear` asks where the cursor is, and the thread that reads
    // what is typed would take the answer.
    *terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
    Ok(())
}

/// What is typed, and the terminal's new size when that changes.
fn typed() -> UnboundedReceiver<Event> {
    let (sender, receiver) = unbounded_channel();
    // Ends with the process: reading from a terminal cannot be called back.
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Asks a holder to stop, while the table goes on.
fn revoke(admin: Admin, name: LockName, token: FencingToken, answer: UnboundedSender<String>) {
    tokio::spawn(async move {
        let words = match admin.revoke(&name, token).await {
            Ok(true) => format!("{name}: its holder with token {token} is asked to stop"),
            Ok(false) => format!("{name}: nobody holds it with token {token} any more"),
            Err(error) => format!("{name}: {error}"),
        };
        // Nobody listens once the table is gone.
        let _ = answer.send(words);
    });
}

fn broken(error: io::Error) -> Failure {
    Failure::new(STORE, format!("the terminal does not work: {error}"))
}
