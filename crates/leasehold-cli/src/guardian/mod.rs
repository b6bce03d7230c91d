//! The guardian: the parent of the command, and the only one who supervises it.
//!
//! ```text
//! leasehold run ──(control socket)── guardian ──(parent)── exec ⟶ CMD and its process group
//!  holds and renews the lease         holds the deadline
//! ```
//!
//! It is this same program, started by itself (`@guardian`), and does nothing but this: when the
//! deadline comes near and no renewal has moved it, when it is told that the lease is lost, or when
//! the control socket ends because leasehold died, it ends CMD and all that CMD started, in
//! whatever process group ([`descendants`]): TERM first, KILL in time. So it works when leasehold
//! is killed with -9, and when it is stopped. Should the guardian itself be killed, the kernel
//! kills CMD (see [`exec`]) and leasehold the rest; should it be stopped, leasehold continues it,
//! and takes its place if that is of no use ([`watch`]). Only if both are killed or both are
//! stopped, something goes on.

pub(crate) mod descendants;
pub(crate) mod exec;
pub(crate) mod link;
mod supervisor;
pub(crate) mod watch;
pub(crate) mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use leasehold::{Clock as _, Instant, SystemClock};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;
use tokio::net::UnixStream;

use self::supervisor::{Supervisor, Watched};
use self::wire::{Begin, Order};
use crate::report::{Failure, NOT_EXECUTABLE, Outcome, Voice};
use crate::signals::survive_file_limits;

/// First argument of the guardian. No lock, option or file name of the command line can be
/// mistaken for it, because only a subcommand can stand there.
pub(crate) const MODE: &str = "@guardian";

/// The clock of deadlines, for leasehold and guardian: it counts suspended time.
pub(crate) const CLOCK: SystemClock = SystemClock::new();

/// Waits until then, or for ever.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => CLOCK.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Runs the guardian: the rest of the command line is CMD.
pub(crate) fn main(command: &[OsString]) -> Outcome {
    let guarded = hear_of_children().and_then(|callers_mask| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            survive_file_limits()?;
            guard(command, &callers_mask).await
        })
    });
    guarded.map_err(|error| {
        Failure::new(NOT_EXECUTABLE, format!("the guardian of the command failed: {error}"))
    })
}

/// Unblocks the signal that tells of ended children, which a caller may have blocked. Gives the
/// mask that the command shall have: the caller's.
fn hear_of_children() -> io::Result<SigSet> {
    let callers_mask = SigSet::thread_get_mask()?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_unblock()?;
    Ok(callers_mask)
}

async fn guard(command: &[OsString], callers_mask: &SigSet) -> io::Result<u8> {
    let (control, rights) = wire::receive_rights()?;
    control.set_nonblocking(true)?;
    let control = UnixStream::from_std(control)?;
    let (orders, reports) = control.into_split();
    let mut orders = wire::incoming(orders);
    let Some(Order::Begin(begin)) = wire::receive(&mut orders).await else {
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
    wire::forget_stdio()?;
    supervisor.run(watched).await;
    // Only now: a store that knows its clients by an open file must not think that this one has
    // died while the command is still being ended.
    drop(rights.lifeline);
    Ok(0)
}

/// Orphans of the command become children of this process, so that it finds them and notices their
/// end.
fn become_reaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
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
        wire::send_rights(&self.control, stdin.as_fd(), None)
    }
}

/// This program, even if its file was replaced or removed since it was started.
pub(crate) fn own_program() -> io::Result<Command> {
    let program = match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => std::env::current_exe()?,
    };
    let mut command = Command::new(program);
    command.arg0("leasehold");
    Ok(command)
}
