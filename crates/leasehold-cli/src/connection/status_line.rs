//! The remarks of a waiter. A terminal has one line that is kept up to date. Elsewhere a line comes
//! when the reason is known, when it changes, and once a minute.

use std::convert::Infallible;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::mem::Discriminant;
use std::time::{Duration, Instant};

use leasehold::LockName;
use leasehold::admin::{Admin, Status};
use leasehold::error::StoreErrorKind;
use tokio::time::{sleep, timeout};

use super::describe::{holders, joined};
use super::events::{LeaseEvents, WaitReason};
use crate::report::{Verbosity, escaped};
use crate::store_url::StoreUrl;
use crate::terminal::{Terminal, columns};

/// A wait that ends within 300 ms is not worth a look.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);

/// How often the line is renewed: every second, one request to the store each.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// A wait that ends within 2 s is not worth a line that stays.
const STAYING_PATIENCE: Duration = Duration::from_secs(2);

/// How often a line that stays is said again although nothing has changed.
const AGAIN: Duration = Duration::from_mins(1);

/// What is waited for, and how it is found out why.
struct Waiting<'a> {
    admin: Admin,
    names: &'a [LockName],
    events: &'a LeaseEvents,
}

/// Says why it waits, until the future is dropped: that erases the line of a terminal.
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

/// Shows with which store it is being connected, until the future is dropped.
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
                // The remedy stands at its end.
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
            // The store is asked only then: there may be many waiters without a terminal.
            if said.of(kind).is_none_or(|age| age >= AGAIN)
                && let Some(sentence) = self.sentence(wait.as_ref()).await
            {
                verbosity.remark(sentence);
                said.note(kind);
            }
            sleep(PERIOD).await;
        }
    }

    /// Why it waits, if that is known.
    async fn sentence(&self, wait: Option<&(LockName, WaitReason)>) -> Option<String> {
        match wait? {
            (name, WaitReason::Trouble { words, .. }) => {
                Some(format!("waiting for {name}: {words}"))
            }
            (name, WaitReason::Taken { .. }) => {
                // A store that hangs must not keep the events about it from being shown.
                let status = timeout(PERIOD, self.admin.inspect(name)).await.ok()?.ok()?;
                Some(who_is_in_the_way(name, &status))
            }
        }
    }
}

fn trouble_of(wait: Option<&(LockName, WaitReason)>) -> Option<Discriminant<StoreErrorKind>> {
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
        // Far behind, or where there is no queue.
        None if status.waiting > 0 => format!("; {} ahead", status.waiting),
        None => String::new(),
    };
    format!("waiting for {name}{by}{place}")
}

/// Where in the queue this process is.
fn own_place(status: &Status) -> Option<u32> {
    let (pid, host) = (std::process::id(), rustix::system::uname());
    let host = host.nodename().to_string_lossy().into_owned();
    let own = status.waiters.iter().find(|w| w.info.pid == pid && w.info.host == host);
    own.map(|waiter| waiter.position)
}

/// The kind of reason that was said last, and when.
#[derive(Default)]
struct LastSaid(Option<(Option<Discriminant<StoreErrorKind>>, Instant)>);

impl LastSaid {
    /// How long ago this was said, unless something else was said since.
    fn of(&self, kind: Option<Discriminant<StoreErrorKind>>) -> Option<Duration> {
        self.0.filter(|(said, _)| *said == kind).map(|(_, at)| at.elapsed())
    }

    fn note(&mut self, kind: Option<Discriminant<StoreErrorKind>>) {
        self.0 = Some((kind, Instant::now()));
    }
}

/// The line of the terminal that is drawn anew.
struct DrawnLine {
    is_drawn: bool,
}

impl DrawnLine {
    /// Draws as much as there is room for; whether that is all.
    fn draw(&mut self, text: &str) -> bool {
        let room = columns(stderr()).saturating_sub("leasehold: ".len() + 1);
        let text = escaped(text);
        let shown: String = text.chars().take(room).collect();
        let _unseen = write!(stderr(), "\r\x1b[Kleasehold: {shown}");
        self.is_drawn = true;
        shown.len() == text.len()
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _unseen = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for DrawnLine {
    fn drop(&mut self) {
        self.erase();
    }
}
