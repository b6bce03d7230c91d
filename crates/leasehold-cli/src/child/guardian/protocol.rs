//! The messages between leasehold and its guardian: first the guardian's task, then lines of JSON
//! over a socket.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::descendants::Remaining;
use crate::args::OnLost;

/// An order to the guardian.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The lease is valid until this time, measured from the origin of the clock that counts
    /// suspended time.
    Deadline { until: Duration },
    /// The lease is lost: end the command.
    Lost,
    /// Send this signal to the command's group.
    Signal { number: i32 },
}

/// How to start and end the command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) until: Duration,
    pub(crate) kill_after: Duration,
    /// How long the command may run.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) on_lost: OnLost,
    /// The signal that processes get first when they must end.
    pub(crate) signal: i32,
    /// This `leasehold run` is inside the command of another one.
    pub(crate) is_nested: bool,
    /// The command gets the terminal from its first line on.
    pub(crate) lend_terminal: bool,
    /// The file that says that this process leads.
    pub(crate) ready_file: Option<PathBuf>,
    /// The variables that the command gets besides those in leasehold's environment.
    pub(crate) variables: Vec<(String, String)>,
}

/// A report of the guardian.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs, as the leader of this process group.
    Started { group: i32 },
    /// The command was stopped by this signal.
    Stopped { signal: i32 },
    /// The command has ended. The processes that it left behind may go on for this long.
    LeftBehind { wait: Duration },
    /// The command is being ended, with all that it started.
    Ending { why: EndReason },
    /// This process was killed, and has not ended.
    Remains { process: Remaining },
    /// The command ended, and no process that it started is left.
    Ended { how: CommandEnd },
}

/// Why the guardian ends the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EndReason {
    /// Leasehold was sent TERM.
    Asked,
    /// Leasehold has died.
    Died,
    /// The command ended and left processes behind.
    LeftBehind,
    /// Leasehold told the guardian that the lease is lost.
    Lost,
    /// The limit of --max-hold is over.
    Over,
    /// The lease was not renewed in time.
    Overdue,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CommandEnd {
    /// With this exit code.
    Exited(u8),
    /// This signal ended the command.
    Signaled(i32),
}

/// Lines from the other side.
pub(crate) type Incoming = Lines<BufReader<OwnedReadHalf>>;

/// Reads lines from one side of the socket.
pub(crate) fn incoming(from: OwnedReadHalf) -> Incoming {
    BufReader::new(from).lines()
}

/// Reads one line; `None` when the other side has died, perhaps in the middle of a line.
///
/// # Cancel safety
///
/// Dropping the future loses nothing.
pub(crate) async fn receive<T: DeserializeOwned>(from: &mut Incoming) -> Option<T> {
    let line = from.next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}

/// Writes one line to leasehold, or none if the socket has no room: leasehold may be stopped, and
/// the guardian must not wait for it. The socket has room for hundreds of lines, and few are
/// written.
pub(crate) fn send_or_drop(to: &OwnedWriteHalf, report: &Report) -> io::Result<()> {
    to.try_write(&line(report)?).map(drop)
}

/// A message as a line of JSON.
pub(crate) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The descriptors that the guardian gets besides the control socket.
#[derive(Debug)]
pub(crate) struct Rights {
    /// The command's stdin, because the guardian's own stdin is the control socket.
    pub(crate) stdin: OwnedFd,
    /// A descriptor that stays open as long as leasehold or the guardian lives, so that a store can
    /// watch whether one of them lives.
    pub(crate) lifeline: Option<OwnedFd>,
}

/// Sends the descriptors, together with the length of the task that follows. Returns the bytes of
/// this task, which the caller writes next.
pub(crate) fn send_rights(
    control: &UnixStream,
    stdin: BorrowedFd<'_>,
    lifeline: Option<BorrowedFd<'_>>,
    begin: &Begin,
) -> io::Result<Vec<u8>> {
    let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(stdin).chain(lifeline).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let begin = serde_json::to_vec(begin)?;
    // Both sides are the same program on the same machine.
    let length = begin.len().to_ne_bytes();
    sendmsg(control, &[IoSlice::new(&length)], &mut ancillary, SendFlags::empty())?;
    Ok(begin)
}

/// In the guardian: takes its stdin as the control socket, and receives the descriptors and the
/// task from it. Waits for them, and returns `None` if leasehold has ended without sending them.
pub(crate) fn receive_begin() -> io::Result<Option<(UnixStream, Rights, Begin)>> {
    let mut control = UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; size_of::<usize>()];
    let buffers = &mut [IoSliceMut::new(&mut length)];
    recvmsg(&control, buffers, &mut ancillary, RecvFlags::empty())?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    for descriptor in &descriptors {
        // The command must inherit neither of them: it might keep the lifeline open for ever.
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    let mut descriptors = descriptors.into_iter();
    let Some(stdin) = descriptors.next() else { return Ok(None) };
    let rights = Rights { stdin, lifeline: descriptors.next() };
    let mut begin = vec![0; usize::from_ne_bytes(length)];
    match control.read_exact(&mut begin) {
        Ok(()) => Ok(Some((control, rights, serde_json::from_slice(&begin)?))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Closes stdin and stdout, which belong to the command alone.
pub(crate) fn forget_stdio() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(nothing.as_fd())?;
    rustix::stdio::dup2_stdout(nothing.as_fd())?;
    Ok(())
}
