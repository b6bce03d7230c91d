//! The one line on a terminal that says, while the lock is awaited, who is in the way.

use std::convert::Infallible;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::Duration;

use leasehold::{Admin, LockName, Status};

use crate::report::{Voice, escaped};
use crate::session::holders;
use crate::store_choice::StoreUrl;
use crate::terminal::{Terminal, columns};

/// What ends sooner is not worth a line: 300 ms.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);

/// How often the line is renewed: every second, one request to the store each.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Shows the line, and keeps it up to date, until the future is dropped: that erases it. Silent
/// unless stderr is a terminal that listens to us.
pub(crate) async fn show(admin: Admin, names: &[LockName], voice: Voice) -> Infallible {
    let terminal = Terminal::of_this_process().filter(|_| stderr().is_terminal() && !voice.quiet);
    let Some(terminal) = terminal else { return std::future::pending().await };
    tokio::time::sleep(PATIENCE).await;
    let mut line = Line { drawn: false };
    loop {
        // Of several names, the first that is in the way.
        for name in names {
            if let Ok(status) = admin.inspect(name).await
                && (names.len() == 1 || own_place(&status).is_some())
            {
                if terminal.is_in_foreground() {
                    line.draw(&sentence(name, &status));
                }
                break;
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Shows with which store it is being connected, until the future is dropped.
pub(crate) async fn connecting(url: &StoreUrl, voice: Voice) -> Infallible {
    let terminal = Terminal::of_this_process().filter(|_| stderr().is_terminal() && !voice.quiet);
    tokio::time::sleep(PATIENCE).await;
    let mut line = Line { drawn: false };
    if terminal.is_some_and(|terminal| terminal.is_in_foreground()) {
        line.draw(&format!("connecting to {url}"));
    }
    std::future::pending().await
}

fn sentence(name: &LockName, status: &Status) -> String {
    let by = holders(status).map(|by| format!(", held by {by}")).unwrap_or_default();
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
    let own = status.waiters.iter().find(|w| w.facts.pid == pid && w.facts.host == host);
    own.map(|waiter| waiter.position)
}

struct Line {
    drawn: bool,
}

impl Line {
    fn draw(&mut self, text: &str) {
        let room = columns(stderr()).saturating_sub("leasehold: ".len() + 1);
        let text: String = escaped(text).chars().take(room).collect();
        let _unseen = write!(stderr(), "\r\x1b[Kleasehold: {text}");
        self.drawn = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.drawn {
            let _unseen = write!(stderr(), "\r\x1b[K");
        }
    }
}
