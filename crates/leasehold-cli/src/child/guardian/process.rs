//! The guardian's process, from its start to its end.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Write as _};
use std::os::unix::net::UnixStream;

use fork::Fork;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, getpid, setpgid, wait};

use super::exec::become_command;
use super::protocol::{self, Begin, Rights};
use super::relaunch::show_as_leasehold;
use super::supervisor::{Supervisor, Watched};
use crate::report::{Failure, NOT_EXECUTABLE, Outcome};
use crate::signals::survive_file_limits;

/// Runs the guardian. The rest of its command line is CMD.
pub(crate) fn main(command: &[OsString]) -> Outcome {
    show_as_leasehold();
    // Blocked signals wait until the guardian catches them.
    let callers_mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let callers_mask = callers_mask.map_err(|error| failed(error.into()))?;
    let received = protocol::receive_begin().map_err(failed)?;
    let Some((control, rights, begin)) = received else {
        return Ok(0); // there is no lease, and nothing to do
    };
    become_reaper().map_err(failed)?;
    // If leasehold dies while this process is stopped, the kernel continues this process, which
    // then ends the command.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT))
        .map_err(|error| failed(error.into()))?;
    let not_started = |error: io::Error| {
        Failure::new(NOT_EXECUTABLE, format!("cannot start the command: {error}"))
    };
    let guardian = getpid();
    let (permission, permit) = io::pipe().map_err(not_started)?;
    match fork::fork().map_err(not_started)? {
        Fork::Child => {
            drop(permit);
            become_command(guardian, permission, command, &begin, &rights, &callers_mask)
        }
        Fork::Parent(pid) => {
            drop(permission);
            let leader = own_group(pid).map_err(not_started)?;
            supervise(control, leader, permit, rights, begin, callers_mask).map_err(failed)
        }
    }
}

/// Gives the command's process a group. That is done here and not in the child, so that the group
/// exists before any other process learns of it.
fn own_group(pid: i32) -> io::Result<Pid> {
    let leader = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
    setpgid(Some(leader), Some(leader))?;
    Ok(leader)
}

fn failed(error: io::Error) -> Failure {
    Failure::new(NOT_EXECUTABLE, format!("the guardian of the command failed: {error}"))
}

fn supervise(
    control: UnixStream,
    leader: Pid,
    mut permit: PipeWriter,
    rights: Rights,
    begin: Begin,
    mut callers_mask: SigSet,
) -> io::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        survive_file_limits()?;
        control.set_nonblocking(true)?;
        let (orders, reports) = tokio::net::UnixStream::from_std(control)?.into_split();
        // Before this wait, the runtime believes that the socket is full, and would drop a report.
        reports.writable().await?;
        let watched = Watched::new(protocol::incoming(orders))?;
        // This unblocks the signals that are now caught, and the signal about ended children, which
        // the caller may have blocked.
        callers_mask.remove(Signal::SIGCHLD);
        callers_mask.thread_set_mask()?;
        let supervisor = Supervisor::new(leader, begin, reports);
        // The command starts only now that leasehold has received the number of the group. If the
        // guardian were killed in between, nobody would end the processes that the command had
        // started.
        permit.write_all(b"\n")?;
        drop(permit);
        // The command has stdin now. If the guardian also kept it open, a pipe would not end when
        // the command closes stdin.
        drop(rights.stdin);
        protocol::forget_stdio()?;
        supervisor.run(watched).await;
        // The lifeline is dropped last. A store that knows its clients by an open file must not
        // think that this client has died while the command is still being ended.
        drop(rights.lifeline);
        Ok(0)
    })
}

/// Makes this process the parent of the command's orphans, so that it finds them and notices their
/// end.
fn become_reaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Makes leasehold the parent of the command's orphans if the guardian dies, so that leasehold
/// finds them. It does nothing if leasehold already has another child: then a program with children
/// has become leasehold (exec), and orphans of these children would look like orphans of the
/// command. Then leasehold finds only the orphans that are in the command's group.
pub(super) fn become_second_reaper() -> bool {
    let is_childless = matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD));
    is_childless && become_reaper().is_ok()
}
