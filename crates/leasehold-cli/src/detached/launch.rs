//! The side of `take`: starts a holder process, prints its handle, and lets the process continue.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use super::control::own_directory;
use crate::child::guardian::relaunched;
use crate::connection::interruption;
use crate::report::{Failure, NO, Outcome, STORE, print};
use crate::secrets;
use crate::signals::Signals;
use crate::store_choice::Choice;
use crate::terminal::is_null;

/// First argument of the holder process. It cannot be mistaken for a lock, an option or a file,
/// because the first argument is always a subcommand.
pub(crate) const MODE: &str = "@holder";

/// The beginning of the variables that leasehold reads.
const PREFIX: &[u8] = b"LEASEHOLD_";

/// The first descriptor after stdin, stdout and stderr.
const FIRST_BEYOND_STDIO: i32 = 3;

/// The task of the holder process, a line of JSON on its stdin. Arguments and environment of the
/// process would be visible to others for as long as it lives.
#[derive(Serialize, Deserialize)]
pub(super) struct Errand {
    /// The arguments as they were typed. The holder process parses them as `take` did.
    pub(super) arguments: Vec<OsString>,
    pub(super) choice: Choice,
}

/// Takes a lease in a separate process, and prints the handle. The process inherits stderr, and
/// prints its messages itself.
pub(crate) async fn take(names: &str, arguments: Vec<OsString>, choice: Choice) -> Outcome {
    let failed = |error: io::Error| Failure::new(STORE, format!("cannot take: {error}"));
    if is_stdout_closed() {
        return Err(Failure::new(NO, "stdout is closed, so nobody would get the handle"));
    }
    own_directory()
        .map_err(|error| Failure::new(STORE, format!("cannot hold in the background: {error}")))?;
    let errand = serde_json::to_string(&Errand { arguments, choice })
        .map_err(|error| failed(error.into()))?;
    let mut signals = Signals::catch_all().map_err(failed)?;
    let mut command = relaunched(MODE).map_err(failed)?;
    // Only `ps` shows this argument.
    command.arg(names);
    secrets::keep_from(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // The holder process outlives the caller, and must not keep the caller's files open: a pipe
    // would not end, and a lock on a file (flock) would stay.
    close_fds::set_fds_cloexec(FIRST_BEYOND_STDIO, &named_descriptors());
    let mut holder = Command::from(command).spawn().map_err(failed)?;
    let (Some(mut go), Some(said)) = (holder.stdin.take(), holder.stdout.take()) else {
        return Err(failed(io::Error::other("there is no pipe to the holder process")));
    };
    let mut said = BufReader::new(said).lines();
    // A holder process that has ended has printed why.
    if go.write_all(format!("{errand}\n").as_bytes()).await.is_err() {
        return ended(&mut holder).await;
    }
    let handle = tokio::select! {
        biased;
        signal = interruption(&mut signals) => {
            // The end of this pipe tells the holder process that `take` has ended. The holder
            // process then gives up.
            drop(go);
            let _ended = holder.wait().await;
            return Err(Failure::interrupted(signal.as_raw(), String::new()));
        }
        handle = said.next_line() => handle.map_err(failed)?,
    };
    // The holder process prints one line once it holds the lease.
    let Some(handle) = handle else { return ended(&mut holder).await };
    // If the handle cannot be printed, nobody could give the lease back. Then the pipe ends without
    // a byte, and the holder process releases the lease.
    print(&handle)?;
    match go.write_all(b"\n").await {
        Ok(()) => Ok(0),
        Err(_) => ended(&mut holder).await,
    }
}

/// The descriptors that an argument or a variable names as files, as a shell does for `>(logger)`
/// and `<(pass redis)`: the holder process opens these files itself.
fn named_descriptors() -> Vec<i32> {
    let variables = env::vars_os().filter(|(key, _)| key.as_encoded_bytes().starts_with(PREFIX));
    let texts = env::args_os().chain(variables.map(|(_, value)| value));
    let named = texts.flat_map(|text| {
        let text = text.to_string_lossy();
        let after = ["/dev/fd/", "/proc/self/fd/"].map(|begin| text.split(begin).skip(1));
        let digits = after.into_iter().flatten().map(|rest| {
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().parse()
        });
        digits.filter_map(Result::ok).collect::<Vec<_>>()
    });
    named.collect()
}

/// Whether the parent closed stdout, as with `>&-`. Every program in Rust then opens `/dev/null` in
/// its place, for reading and writing. `>/dev/null` opens it only for writing, and is a choice of
/// the user.
fn is_stdout_closed() -> bool {
    let stdout = io::stdout();
    let flags = fcntl_getfl(&stdout);
    is_null(&stdout) && flags.is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
}

/// The exit of the holder process, which has printed the reason.
async fn ended(holder: &mut Child) -> Outcome {
    let status = holder.wait().await;
    let status = status.map_err(|error| Failure::new(STORE, format!("cannot take: {error}")))?;
    match (status.code().and_then(|code| u8::try_from(code).ok()), status.signal()) {
        (Some(code), _) => Ok(code),
        (None, Some(number)) => Err(Failure::interrupted(number, String::new())),
        (None, None) => Err(Failure::new(STORE, "the holder process ended without a word")),
    }
}
