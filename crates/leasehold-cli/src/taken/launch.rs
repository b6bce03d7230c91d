//! `take`'s side: starts a holder process, prints the handle that it says, and lets it go on.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::child::guardian::relaunched;
use crate::connection::interruption;
use crate::report::{Failure, Outcome, STORE, print};
use crate::signals::Signals;

/// First argument of the holder process. No lock, option or file name can be mistaken for it,
/// because only a subcommand can stand there.
pub(crate) const MODE: &str = "@holder";

/// Takes a lease by a process of its own, which is told the same arguments, and prints its handle.
/// What the process says meanwhile it says itself: it has our stderr.
pub(crate) async fn take(arguments: impl IntoIterator<Item = OsString>) -> Outcome {
    let failed = |error: io::Error| Failure::new(STORE, format!("cannot take: {error}"));
    let mut signals = Signals::catch_all().map_err(failed)?;
    let mut command = relaunched(MODE).map_err(failed)?;
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = Command::from(command).spawn().map_err(failed)?;
    let (Some(mut go), Some(said)) = (holder.stdin.take(), holder.stdout.take()) else {
        return Err(failed(io::Error::other("there is no pipe to the holder process")));
    };
    let handle = tokio::select! {
        biased;
        signal = interruption(&mut signals) => {
            // Without us it gives up, and says so.
            drop(go);
            let _ended = holder.wait().await;
            return Err(Failure::interrupted(signal.as_raw(), String::new()));
        }
        handle = handle(said) => handle.map_err(failed)?,
    };
    let Some(handle) = handle else { return ended(&mut holder).await };
    // If it cannot be printed, nobody could give it back: the end of the pipe says so.
    print(&handle)?;
    match go.write_all(b"\n").await {
        Ok(()) => Ok(0),
        Err(_) => ended(&mut holder).await,
    }
}

/// The line that the holder process says once it holds; `None` if it ends without.
async fn handle(said: ChildStdout) -> io::Result<Option<String>> {
    let mut line = String::new();
    let length = BufReader::new(said).read_line(&mut line).await?;
    Ok((length > 0).then(|| line.trim_end().to_owned()))
}

/// How it ended, which it has explained.
async fn ended(holder: &mut Child) -> Outcome {
    let status = holder.wait().await;
    let status = status.map_err(|error| Failure::new(STORE, format!("cannot take: {error}")))?;
    match (status.code().and_then(|code| u8::try_from(code).ok()), status.signal()) {
        (Some(code), _) => Ok(code),
        (None, Some(number)) => Err(Failure::interrupted(number, String::new())),
        (None, None) => Err(Failure::new(STORE, "the holder process ended without a word")),
    }
}
