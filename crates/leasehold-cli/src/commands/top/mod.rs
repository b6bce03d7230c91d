//! `leasehold top`: shows which locks are held and awaited, live in the terminal.

mod screen;
mod view;

use std::io::{self, IsTerminal as _, stdin, stdout};
use std::pin::pin;
use std::thread;
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::{Admin, LeaseId};
use leasehold::time::SystemClock;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{DefaultTerminal, Terminal};
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use self::view::{Demand, View};
use crate::args::Top;
use crate::connection::ask;
use crate::report::{Failure, Outcome, STORE, USAGE};
use crate::signals::Signals;
use crate::terminal::is_cooked;
use crate::watch::{Timekeeper, Watcher};

/// The signals that are caught: CONT, after which the screen is drawn again, and those by which
/// others end a program. The terminal must be restored first.
const CAUGHT: [Signal; 5] = [Signal::CONT, Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// How often the screen is drawn, besides after each key: every second.
const REDRAW: Duration = Duration::from_secs(1);

/// Shows the locks of the store until the user quits.
pub(crate) fn top(args: &Top) -> Outcome {
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        let why = "`leasehold top` needs a terminal: for programs there is `leasehold ls --json`";
        return Err(Failure::new(USAGE, why));
    }
    let choice = args.store.choose()?;
    ask(&choice, args.store.verbosity, async |client| {
        let mut terminal = ratatui::try_init().map_err(broken)?;
        let view = View::new(choice.url.to_string(), args.prefix.clone());
        let shown = show(view, client.admin(), &mut terminal).await;
        // If the terminal is gone, there is nothing to restore.
        let _gone = ratatui::try_restore();
        shown
    })?;
    Ok(0)
}

async fn show(mut view: View, admin: Admin, terminal: &mut DefaultTerminal) -> Result<(), Failure> {
    let watcher = Watcher::new(Vec::new(), Timekeeper::new(SystemClock::new()));
    let mut watching = pin!(watcher.run(&admin, |_| {}));
    let mut typed = typed();
    let (answer, mut answers) = unbounded_channel();
    let mut signals = Signals::catch(CAUGHT).map_err(broken)?;
    let mut ticks = interval(REDRAW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        view.refresh(&watcher.picture(), watcher.time.now_ms());
        terminal.draw(|frame| screen::draw(frame, &view)).map_err(broken)?;
        tokio::select! {
            never = &mut watching => match never {},
            _ = ticks.tick() => {}
            Some(words) = answers.recv() => view.message = Some(words),
            signal = signals.next() => match signal {
                Signal::CONT => resume(terminal).map_err(broken)?,
                end => return Err(Failure::interrupted(end.as_raw(), String::new())),
            },
            event = typed.recv() => {
                // The terminal is gone, so there is nobody to show anything to.
                let Some(event) = event else { return Ok(()) };
                match view.typed(&event) {
                    Some(Demand::Quit) => return Ok(()),
                    Some(Demand::Suspend) => suspend(terminal).map_err(broken)?,
                    Some(Demand::Revoke { name, lease }) => {
                        revoke(admin.clone(), name, lease, answer.clone());
                    }
                    None => {}
                }
            }
        }
    }
}

/// Restores the terminal, and stops this process and the others of its job. Returns once they are
/// continued.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    ratatui::restore();
    // The signal stops this thread before the call returns, unless no process could continue it.
    rustix::process::kill_current_process_group(Signal::TSTP)?;
    resume(terminal)
}

/// Takes the screen again, even if others have changed the terminal meanwhile. A raw terminal stays
/// raw: otherwise a Ctrl-Z in between would stop this process while it has the screen.
fn resume(terminal: &mut DefaultTerminal) -> io::Result<()> {
    if is_cooked(stdin()) {
        // This makes crossterm forget the earlier state of the terminal.
        disable_raw_mode()?;
        enable_raw_mode()?;
    }
    execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
    // A new `Terminal` redraws everything. `Terminal::clear` would ask for the position of the
    // cursor, and the thread that reads keys would take the answer.
    *terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
    Ok(())
}

/// Receives the keys that are typed, and the new sizes of the terminal.
fn typed() -> UnboundedReceiver<Event> {
    let (sender, receiver) = unbounded_channel();
    // The thread ends with the process, because a read from a terminal cannot be cancelled.
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Asks a holder to stop, while the table is still updated.
fn revoke(admin: Admin, name: LockName, lease: LeaseId, answer: UnboundedSender<String>) {
    tokio::spawn(async move {
        let words = match admin.revoke(&name, lease).await {
            Ok(true) => format!("{name}: the holder of the lease {lease} is asked to stop"),
            Ok(false) => format!("{name}: the lease {lease} does not hold it any more"),
            Err(error) => format!("{name}: {error}"),
        };
        // The receiver is gone once the table is.
        let _ = answer.send(words);
    });
}

fn broken(error: io::Error) -> Failure {
    Failure::new(STORE, format!("the terminal does not work: {error}"))
}
