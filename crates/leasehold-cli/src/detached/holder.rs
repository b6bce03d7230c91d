//! The holder process of `take`: acquires the lease, and holds it until it is given back or ends.

use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Write as _, stdin};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use leasehold::admin::HolderId;
use leasehold::time::{Clock as _, Instant, show_duration};
use leasehold::{Error, Guard};
use rustix::process::setsid;
use rustix::stdio::dup2_stderr;
use serde::Serialize;
use tokio::task::{JoinHandle, spawn_blocking};

use super::control::{Answer, Asked, Control, Request, socket_of};
use super::handle::{Handle, HeldName};
use super::launch::Errand;
use crate::args::{Command, Take, parse};
use crate::child::guardian::protocol::forget_stdio;
use crate::child::guardian::show_as_leasehold;
use crate::child::guardian::timing::{CLOCK, sleep_until};
use crate::connection::{Connection, lease_options};
use crate::moment::{day_and_time, iso, millis, now_ms};
use crate::other_process::{OtherProcess, end_of};
use crate::report::{
    Failure, LOST, NO, Outcome, STORE, USAGE, Verbosity, escaped, print, print_json,
};
use crate::runtime::block_on;
use crate::signals::{is_end, signal_name};
use crate::store_choice::Choice;
use crate::user::{User, host};

/// Reads the arguments of `take` again, and takes the lease.
pub(crate) fn main() -> Outcome {
    let stray = || Failure::usage("a holder process is started by `leasehold take` alone");
    show_as_leasehold();
    let mut line = String::new();
    // Bytes behind this line stay in the buffer of stdin, and are read later.
    stdin().lock().read_line(&mut line).map_err(|_| stray())?;
    let errand: Errand = serde_json::from_str(&line).map_err(|_| stray())?;
    match parse::parse(&errand.arguments) {
        Ok(Command::Take(args)) => hold(&args, &errand.choice),
        Ok(_) => Err(stray()),
        Err(outcome) => outcome,
    }
}

fn hold(args: &Take, choice: &Choice) -> Outcome {
    let verbosity = args.lock.store.verbosity;
    let user = User::of_this_process().name;
    let mut options = lease_options(&args.lock, Duration::ZERO, None)?;
    // Before the lease is held, the label can name only the span of the hold, and not its end.
    let over = args.for_span.map(|span| format!("for {}", show_duration(span)));
    options.label = Some(label(args, &user, over));
    options.check()?;
    block_on(async {
        let process = args.pid.map(OtherProcess::find).transpose()?;
        let mut log = Log::open(args.log.as_deref(), verbosity)?;
        let mut taker = Taker::listen();
        let mut connection = tokio::select! {
            biased;
            () = taker.gone() => return Err(given_up()),
            opened = Connection::open_for(&args.lock, choice) => opened?,
        };
        let outcome = async {
            let guard = tokio::select! {
                biased;
                () = taker.gone() => Err(given_up()),
                acquired = connection.acquire(&args.lock, options) => acquired,
            }?;
            let over_at = args.for_span.map(|span| CLOCK.now() + span);
            let (connection, log) = (&mut connection, &mut log);
            let held = Held { args, user, guard, connection, over_at, process, log };
            held.hand_over(choice, taker).await
        };
        let outcome = outcome.await;
        connection.close(outcome).await
    })?
}

fn given_up() -> Failure {
    Failure::new(NO, "gave up, because `leasehold take` was ended")
}

/// A lease, and what the holder process needs for it.
struct Held<'a> {
    args: &'a Take,
    /// The user who took the lease.
    user: String,
    guard: Guard,
    connection: &'a mut Connection,
    /// When the hold ends that nobody gives back, and the process with which it ends.
    over_at: Option<Instant>,
    process: Option<OtherProcess>,
    log: &'a mut Log,
}

impl Held<'_> {
    /// Sends the handle to `take`, and holds the lease if `take` has printed it.
    async fn hand_over(self, choice: &Choice, taker: Taker) -> Outcome {
        let failed = |error: io::Error| {
            Failure::new(STORE, format!("cannot hold in the background: {error}"))
        };
        self.tell_others(self.args.for_span).await;
        // From now on, this process is independent of the terminal and its session.
        setsid().map_err(|error| failed(error.into()))?;
        let client = self.guard.holder().client;
        let control = socket_of(client).and_then(Control::listen).map_err(failed)?;
        let handle = Handle {
            host: host(),
            user: self.user.clone(),
            store: choice.url.to_string(),
            client,
            names: HeldName::all(&self.guard),
        };
        let text = handle.encode().map_err(|error| failed(io::Error::other(error)))?;
        match self.args.json {
            true => print_json(&TakenView {
                handle: &text,
                names: &handle.names,
                holder: self.guard.holder(),
                ttl_seconds: self.args.lock.ttl.as_secs_f64(),
                until: self.args.for_span.map(|span| iso(after(span))),
            })?,
            false => print(text)?,
        }
        if !taker.has_heard().await {
            return match self.guard.release().await {
                Ok(()) => Err(given_up()),
                Err(error) => Err(error.into()),
            };
        }
        // A pipeline or a session may wait for the end of stdin, stdout and stderr.
        forget_stdio().map_err(failed)?;
        dup2_stderr(stdin()).map_err(|error| failed(error.into()))?;
        self.until_over(&handle, &control).await
    }

    async fn until_over(mut self, handle: &Handle, control: &Control) -> Outcome {
        let asked = loop {
            let why = tokio::select! {
                biased;
                Some(reason) = self.guard.lost() => {
                    let names: Vec<_> = handle.names.iter().map(|held| held.name.clone()).collect();
                    let cause = self.connection.events.why_not_renewed(&names, reason);
                    self.tell_end(handle, "lost", &format!("{reason}{cause}"));
                    return Ok(LOST);
                },
                () = sleep_until(self.over_at) => "--for is over".to_owned(),
                () = end_of(self.process.as_mut()) => break None,
                asked = control.next() => match asked.order {
                    Request::Give => break Some(asked),
                    Request::Renew { for_span } => {
                        self.renew(asked, for_span).await;
                        continue;
                    }
                },
                signal = self.connection.signals.next() => match is_end(signal) {
                    true => signal_name(signal),
                    false => continue,
                },
            };
            // The script that took the lease does not know this, and others get the lock.
            self.tell_end(handle, "let go of", &why);
            break None;
        };
        let answer = match self.guard.release().await {
            // The lease was held until now, so this is a success, even if the store did not answer
            // the release.
            Err(Error::Lost { reason, .. }) => {
                let why = format!("{}: the lease was lost before: {reason}", handle.shown());
                self.log.say(&why);
                Answer::Lost { why }
            }
            Ok(()) | Err(_) => Answer::Done,
        };
        let was_lost = answer != Answer::Done;
        if let Some(asked) = asked {
            asked.answer(&answer).await;
        }
        Ok(if was_lost { LOST } else { 0 })
    }

    async fn renew(&mut self, asked: Asked, for_span: Duration) {
        self.over_at = Some(CLOCK.now() + for_span);
        asked.answer(&Answer::Done).await;
        self.tell_others(Some(for_span)).await;
    }

    /// Logs an end that nobody asked for, and how much too early it comes.
    fn tell_end(&mut self, handle: &Handle, what: &str, why: &str) {
        let left = self.over_at.map(|end| end.saturating_since(CLOCK.now()));
        let early = match left.filter(|left| !left.is_zero()) {
            Some(left) => format!(", {} too early", show_duration(left)),
            None => String::new(),
        };
        let (shown, tokens) = (handle.shown(), handle.tokens());
        self.log.say(&format!("{shown}: {what} the lease with token {tokens}: {why}{early}"));
    }

    /// Writes the end of the hold into the label, for other users. If the store does not answer,
    /// the label may stay as it was.
    async fn tell_others(&self, for_span: Option<Duration>) {
        let over = for_span.map(|span| format!("until {}", day_and_time(after(span))));
        let _untold = self.guard.set_label(label(self.args, &self.user, over)).await;
    }
}

/// The label that others see with the lease: the user's text, when the hold ends, and who took the
/// lease. Others need the label, because the holder process itself means nothing to them.
fn label(args: &Take, user: &str, over: Option<String>) -> String {
    let process = args.pid.map(|pid| format!("while process {} lives", pid.as_raw_nonzero()));
    let ends = over.into_iter().chain(process).collect::<Vec<_>>().join(" and ");
    let said = args.lock.label.as_ref().map(|said| format!("{said}; ")).unwrap_or_default();
    format!("{said}{ends}, by {user}")
}

/// The `take` that started this process. It sends a byte once it has printed the handle.
struct Taker(JoinHandle<bool>);

impl Taker {
    fn listen() -> Self {
        // The thread is not waited for: it ends with the pipe, or with the process.
        Self(spawn_blocking(|| stdin().read(&mut [0]).is_ok_and(|length| length > 0)))
    }

    /// Completes when `take` has ended.
    async fn gone(&mut self) {
        // `take` sends nothing before it has the handle, so this completes only when `take` ends.
        let _end = (&mut self.0).await;
    }

    async fn has_heard(self) -> bool {
        self.0.await.unwrap_or(false)
    }
}

/// The line of `take --json`.
#[derive(Serialize)]
struct TakenView<'a> {
    handle: &'a str,
    names: &'a [HeldName],
    holder: HolderId,
    ttl_seconds: f64,
    until: Option<String>,
}

/// Milliseconds since 1970, `span` from now.
fn after(span: Duration) -> u64 {
    now_ms().saturating_add(millis(span))
}

/// Where the machine's log daemon listens.
const SYSLOG: &str = "/dev/log";

/// The priority of its lines: facility daemon (3), severity error (3), as in syslog(3).
const DAEMON_ERROR: u8 = 3 << 3 | 3;

/// A place for one line.
#[derive(Debug)]
enum Log {
    File(File),
    Syslog(UnixDatagram),
    /// There is no log, and a message has said so.
    Nowhere,
}

impl Log {
    /// Opens the file that the user named, or else the machine's log.
    fn open(path: Option<&Path>, verbosity: Verbosity) -> Result<Self, Failure> {
        if let Some(path) = path {
            let file = File::options().append(true).create(true).open(path);
            return file.map(Self::File).map_err(|error| {
                Failure::new(USAGE, format!("--log {}: {error}", path.display()))
            });
        }
        let syslog = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(SYSLOG)?;
            Ok(Self::Syslog(socket))
        });
        Ok(syslog.unwrap_or_else(|_| {
            verbosity.remark(format_args!(
                "a loss of this lease will not be reported, because nothing listens at {SYSLOG} \
                 here: give --log FILE"
            ));
            Self::Nowhere
        }))
    }

    /// Writes one line. A failure to write is no reason to end.
    fn say(&mut self, what: &str) {
        let (what, pid) = (escaped(what), std::process::id());
        let _unsaid: io::Result<()> = match self {
            Self::File(file) => {
                file.write_all(format!("{} leasehold[{pid}]: {what}\n", iso(now_ms())).as_bytes())
            }
            Self::Syslog(socket) => socket
                .send(format!("<{DAEMON_ERROR}>leasehold[{pid}]: {what}").as_bytes())
                .map(drop),
            Self::Nowhere => Ok(()),
        };
    }
}
