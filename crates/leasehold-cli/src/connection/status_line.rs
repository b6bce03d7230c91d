//! The remarks of a waiter. On a terminal, one line is kept up to date. Elsewhere, a line is
//! printed when the reason is known, when it changes, and once a minute.

use std::convert::Infallible;
use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use leasehold::LockName;
use leasehold::admin::{Admin, Status};
use tokio::time::{sleep, timeout};

use super::describe::{holders, joined};
use super::events::{LeaseEvents, WaitReason};
use crate::report::{Verbosity, escaped};
use crate::store_url::StoreUrl;
use crate::terminal::{Terminal, columns};
use crate::user::host;

/// A wait that ends within 300 ms is not shown.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);

/// How often the line is updated: every second, with one request to the store.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// A wait that ends within 2 s does not get a lasting line.
const STAYING_PATIENCE: Duration = Duration::from_secs(2);

/// How often a lasting line is repeated if nothing has changed.
const AGAIN: Duration = Duration::from_mins(1);

/// A wait: the names, and the sources for its reason.
struct Waiting<'a> {
    admin: Admin,
    names: &'a [LockName],
    events: &'a LeaseEvents,
}

/// Shows why the client waits, until the future is dropped. The drop erases the line of a terminal.
pub(crate) async fn show(
    admin: Admin,
    names: &[LockName],
    events: &LeaseEvents,
    verbosity: Verbosity,
) -> Infallible {
    if verbosity.quiet {
        return std::future::pending().await;
    }
    let waiting = Waiting { admin, names, events };
    match Terminal::of_this_process().filter(|_| stderr().is_terminal()) {
        Some(terminal) => waiting.draw(&terminal, verbosity).await,
        None => waiting.say(verbosity).await,
    }
}

/// Shows the store to which leasehold connects, until the future is dropped.
pub(crate) async fn connecting(url: &StoreUrl, verbosity: Verbosity) -> Infallible {
    let terminal =
        Terminal::of_this_process().filter(|_| stderr().is_terminal() && !verbosity.quiet);
    sleep(PATIENCE).await;
    let mut line = DrawnLine { is_drawn: false };
    if terminal.is_some_and(|terminal| terminal.is_in_foreground()) {
        line.draw(&format!("connecting to {url}"));
    }
    std::future::pending().await
}

impl Waiting<'_> {
    async fn draw(&self, terminal: &Terminal, verbosity: Verbosity) -> Infallible {
        let (mut line, mut said) = (DrawnLine { is_drawn: false }, LastSaid::default());
        let since = Instant::now();
        sleep(PATIENCE).await;
        loop {
            let wait = self.events.wait_reason(self.names);
            let sentence = self.sentence(wait.as_ref()).await;
            let sentence =
                sentence.unwrap_or_else(|| format!("waiting for {}", joined(self.names)));
            if terminal.is_in_foreground() {
                let fits = line.draw(&sentence);
                let kind = trouble_of(wait.as_ref());
                // The remedy is at the end of the message, so a message that was cut is printed in
                // full.
                if !fits && kind.is_some() && since.elapsed() >= STAYING_PATIENCE {
                    if said.of(kind).is_none() {
                        line.erase();
                        verbosity.remark(&sentence);
                        line.draw(&sentence);
                    }
                    said.note(kind);
                }
            }
            sleep(PERIOD).await;
        }
    }

    async fn say(&self, verbosity: Verbosity) -> Infallible {
        let mut said = LastSaid::default();
        sleep(STAYING_PATIENCE).await;
        loop {
            let wait = self.events.wait_reason(self.names);
            let kind = trouble_of(wait.as_ref());
            // The store is asked only now, because there may be many waiters without a terminal.
            if said.of(kind).is_none_or(|age| age >= AGAIN)
                && let Some(sentence) = self.sentence(wait.as_ref()).await
            {
                verbosity.remark(sentence);
                said.note(kind);
            }
            sleep(PERIOD).await;
        }
    }

    /// A sentence about the reason of the wait, if it is known.
    async fn sentence(&self, wait: Option<&(LockName, WaitReason)>) -> Option<String> {
        match wait? {
            (name, WaitReason::Trouble { words, .. }) => {
                Some(format!("waiting for {name}: {words}"))
            }
            (name, WaitReason::Taken { .. }) => {
                // A store that hangs must not prevent events about it from being shown.
                let status = timeout(PERIOD, self.admin.inspect(name)).await.ok()?.ok()?;
                Some(who_is_in_the_way(name, &status))
            }
        }
    }
}

fn trouble_of(wait: Option<&(LockName, WaitReason)>) -> Option<&'static str> {
    match wait {
        Some((_, WaitReason::Trouble { kind, .. })) => Some(*kind),
        Some((_, WaitReason::Taken { .. })) | None => None,
    }
}

fn who_is_in_the_way(name: &LockName, status: &Status) -> String {
    let by = holders(status).map(|by| format!(", {by}")).unwrap_or_default();
    let place = match own_place(status) {
        Some(1) => "; next in line".to_owned(),
        Some(place) => format!("; {} ahead", place.saturating_sub(1)),
        // This client is far behind, or there is no queue.
        None if status.waiting > 0 => format!("; {} ahead", status.waiting),
        None => String::new(),
    };
    format!("waiting for {name}{by}{place}")
}

/// The place of this process in the queue.
fn own_place(status: &Status) -> Option<u32> {
    let (pid, host) = (std::process::id(), host());
    let own = status.waiters.iter().find(|w| w.info.pid == pid && w.info.host == host);
    own.map(|waiter| waiter.position)
}

/// The last reason that was printed, and when.
#[derive(Default)]
struct LastSaid(Option<(Option<&'static str>, Instant)>);

impl LastSaid {
    /// How long ago this reason was printed, if no other was printed since.
    fn of(&self, kind: Option<&'static str>) -> Option<Duration> {
        self.0.filter(|(said, _)| *said == kind).map(|(_, at)| at.elapsed())
    }

    fn note(&mut self, kind: Option<&'static str>) {
        self.0 = Some((kind, Instant::now()));
    }
}

/// The line of the terminal that is redrawn.
struct DrawnLine {
    is_drawn: bool,
}

impl DrawnLine {
    /// Draws as much of the text as fits, and returns whether all of it fits.
    fn draw(&mut self, text: &str) -> bool {
        let room = columns(stderr()).saturating_sub("leasehold: ".len() + 1);
        let text = escaped(text);
        let shown: String = text.chars().take(room).collect();
        crate::stderr::write(format!("\r\x1b[Kleasehold: {shown}"));
        self.is_drawn = true;
        shown.len() == text.len()
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            crate::stderr::write("\r\x1b[K".to_owned());
        }
    }
}

impl Drop for DrawnLine {
    fn drop(&mut self) {
        self.erase();
    }
}
