//! The guardian's process, from its start to its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;
use tokio::net::UnixStream;

use super::exec;
use super::protocol::{self, Begin, Order};
use super::reaper::become_reaper;
use super::supervisor::{Supervisor, Watched};
use crate::report::{Failure, NOT_EXECUTABLE, Outcome, Voice};
use crate::signals::survive_file_limits;

/// Runs the guardian: the rest of the command line is CMD.
pub(crate) fn main(command: &[OsString]) -> Outcome {
    let ended = unblock_child_signal().and_then(|callers_mask| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            survive_file_limits()?;
            supervise(command, &callers_mask).await
        })
    });
    ended.map_err(|error| {
        Failure::new(NOT_EXECUTABLE, format!("the guardian of the command failed: {error}"))
    })
}

/// Unblocks the signal that tells of ended children, which a caller may have blocked. Gives the
/// mask that the command shall have: the caller's.
fn unblock_child_signal() -> io::Result<SigSet> {
    let callers_mask = SigSet::thread_get_mask()?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_unblock()?;
    Ok(callers_mask)
}

async fn supervise(command: &[OsString], callers_mask: &SigSet) -> io::Result<u8> {
    let (control, rights) = protocol::receive_rights()?;
    control.set_nonblocking(true)?;
    let control = UnixStream::from_std(control)?;
    let (orders, reports) = control.into_split();
    let mut orders = protocol::incoming(orders);
    let Some(Order::Begin(begin)) = protocol::receive(&mut orders).await else {
        return Ok(0); // leasehold died before it could say what to do
    };
    become_reaper()?;
    // Children may end as soon as they are there, so watch before the first is started.
    let watched = Watched::new(orders)?;
    let stage = match Stage::start(command, &begin, callers_mask) {
        Ok(stage) => stage,
        Err(error) => {
            Voice::usual().error(format_args!("cannot start the command: {error}"));
            return Ok(NOT_EXECUTABLE);
        }
    };
    let supervisor = Supervisor::new(stage.leader, &begin, reports);
    stage.go_on(rights.stdin)?;
    // The command has it now. Held here too, a pipe would not end when the command closes it.
    protocol::forget_stdio()?;
    supervisor.run(watched).await;
    // Only now: a store that knows its clients by an open file must not think that this one has
    // died while the command is still being ended.
    drop(rights.lifeline);
    Ok(0)
}

/// The command's process, before it becomes the command.
struct Stage {
    leader: Pid,
    control: std::os::unix::net::UnixStream,
}

impl Stage {
    fn start(command: &[OsString], begin: &Begin, callers_mask: &SigSet) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let mut stage = exec::stage(command, begin)?;
        stage.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
        // Handed down to the command. This is the only thread.
        let mask = SigSet::thread_get_mask()?;
        callers_mask.thread_set_mask()?;
        let spawned = stage.spawn();
        mask.thread_set_mask()?;
        Ok(Self { leader: Pid::from_child(&spawned?), control: ours })
    }

    /// Gives it the command's stdin, which it waits for. Not before leasehold was told the number
    /// of its group: were the guardian killed in between, nobody would end what the command had
    /// started by then.
    fn go_on(self, stdin: OwnedFd) -> io::Result<()> {
        protocol::send_rights(&self.control, stdin.as_fd(), None)
    }
}
