//! `leasehold hold`: a lease without a command, for scripts. `elect` without a command uses the
//! same code.

use std::io::{self, IsTerminal as _, stdin};
use std::time::{Duration, Instant};

use leasehold::admin::HolderId;
use leasehold::time::{Clock as _, show_duration};
use leasehold::{Error, FencingToken, Guard, LockName};
use serde::Serialize;
use tokio::task::spawn_blocking;

use crate::args::{Hold, Limit};
use crate::child::guardian::timing::{CLOCK, sleep_until};
use crate::connection::{Connection, joined, label_of_caller, lease_options};
use crate::detached::HeldName;
use crate::other_process::{OtherProcess, end_of};
use crate::report::{Failure, LOST, Outcome, Verbosity, print_json};
use crate::runtime::block_on;
use crate::signals::is_end;
use crate::terminal::{is_null, refuse_to_stop_for_input};

/// The line that is printed once the lock is held.
#[derive(Serialize)]
struct HeldView<'a> {
    name: &'a LockName,
    token: FencingToken,
    holder: HolderId,
    ttl_seconds: f64,
    /// All names if there are several; empty for one name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<HeldName>,
}

/// Holds a lock until stdin ends, a signal comes, another process ends or the lease is lost.
pub(crate) fn hold(args: &Hold) -> Outcome {
    let options = lease_options(&args.lock, Duration::ZERO, label_of_caller())?;
    let choice = args.lock.store.choose()?;
    block_on(async {
        let mut process = args.pid.map(OtherProcess::find).transpose()?;
        let mut connection = Connection::open_for(&args.lock, &choice).await?;
        let held = async {
            let guard = connection.acquire(&args.lock, options).await?;
            let (ttl, limit) = (args.lock.ttl, args.lock.max_hold.as_ref());
            let reached =
                until_asked(&mut connection, &guard, ttl, limit, process.as_mut()).await?;
            let_go(&connection, &args.lock.names, guard.release().await, reached)
        };
        let outcome = held.await;
        connection.close(outcome).await
    })?
}

/// Prints that the lock is held, and waits until stdin ends, a signal comes or the lease is lost.
/// The limit and the end of the process end the wait, too. Returns the limit if it was reached.
pub(crate) async fn until_asked<'a>(
    connection: &mut Connection,
    guard: &Guard,
    ttl: Duration,
    limit: Option<&'a Limit>,
    process: Option<&mut OtherProcess>,
) -> Result<Option<&'a Limit>, Failure> {
    let (since, verbosity) = (Instant::now(), connection.verbosity);
    let (name, token, holder) = (guard.name(), guard.token(), guard.holder());
    let mut names = HeldName::all(guard);
    if names.len() == 1 {
        names.clear();
    }
    print_json(&HeldView { name, token, holder, ttl_seconds: ttl.as_secs_f64(), names })?;
    let stdin = Stdin::of_this_process();
    stdin.explain(name, verbosity);
    let over_at = limit.map(|limit| CLOCK.now() + limit.span);
    let signal = async { while !is_end(connection.signals.next().await) {} };
    let reached = tokio::select! {
        biased;
        _ = guard.lost() => None,
        () = sleep_until(over_at) => limit,
        () = end_of(process) => None,
        () = end_of_stdin(), if !matches!(stdin, Stdin::Null) => None,
        () = signal => None,
    };
    verbosity.detail(format_args!("{name}: held for {}", show_duration(since.elapsed())));
    Ok(reached)
}

/// The outcome of a hold: it depends on the result of the release, and on the limit that was
/// reached, if any.
pub(crate) fn let_go(
    connection: &Connection,
    names: &[LockName],
    released: leasehold::Result<()>,
    reached: Option<&Limit>,
) -> Outcome {
    match (released, reached) {
        (Ok(()), None) => Ok(0),
        (Ok(()), Some(limit)) => {
            Err(Failure::new(LOST, format!("{}: {limit} is over", joined(names))))
        }
        (Err(ref error @ Error::Lost { reason, .. }), _) => {
            let why = connection.events.why_not_renewed(names, reason);
            Err(Failure::new(LOST, format!("{error}{why}")))
        }
        // The lease was held until the end, so this is a success, even if the store did not answer
        // the release.
        (Err(error), _) => {
            connection.verbosity.failure(&error.into());
            Ok(0)
        }
    }
}

/// The kinds of stdin.
#[derive(Clone, Copy, Debug)]
enum Stdin {
    /// A pipe or file. When it ends, the lock is released.
    Ends,
    /// A script, cron or systemd has set stdin to `/dev/null`. It ends immediately, so its end
    /// means nothing.
    Null,
    /// A terminal, at which the user ends the input with a key.
    Terminal,
}

impl Stdin {
    fn of_this_process() -> Self {
        match stdin().is_terminal() {
            true => Self::Terminal,
            false if is_null(stdin()) => Self::Null,
            false => Self::Ends,
        }
    }

    fn explain(self, name: &LockName, verbosity: Verbosity) {
        match self {
            Self::Ends => {}
            Self::Null => verbosity.remark(format_args!(
                "{name}: stdin is /dev/null, so the lock is held until a signal comes, such as \
                 that of `kill {}`",
                std::process::id()
            )),
            Self::Terminal => verbosity.remark(format_args!("{name}: held until Ctrl-D")),
        }
    }
}

/// Completes when stdin has ended. If stdin cannot be read, such as the terminal in the background,
/// this never completes.
async fn end_of_stdin() {
    // A read from a terminal cannot be cancelled, so the thread ends with the process.
    let reading = spawn_blocking(|| {
        refuse_to_stop_for_input()?;
        io::copy(&mut stdin().lock(), &mut io::sink())
    });
    if !matches!(reading.await, Ok(Ok(_))) {
        std::future::pending::<()>().await;
    }
}
