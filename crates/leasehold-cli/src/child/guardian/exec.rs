//! The last step before the command: our own code, which runs in the command's process.
//!
//! That process must ask the kernel for a death signal, and take the terminal. A library that
//! starts programs cannot do that. So the guardian forks, and the child does both and then becomes
//! the command. The child may run any code until then: the guardian has one thread and no runtime
//! yet, so no lock is held by a thread that the child lacks.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use leasehold::time::{Clock as _, Instant};
use nix::sys::signal::SigSet;
use rustix::process::{Pid, getpid};
use rustix::stdio::dup2_stdin;

use super::protocol::{Begin, Rights};
use super::timing::CLOCK;
use crate::args::OnLost;
use crate::report::{Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, Outcome, Verbosity};
use crate::terminal::Terminal;

/// Becomes the command once the guardian permits it, by a byte. Returns only if that fails.
pub(super) fn become_command(
    guardian: Pid,
    mut permission: PipeReader,
    command: &[OsString],
    begin: &Begin,
    rights: &Rights,
    callers_mask: &SigSet,
) -> Outcome {
    let [program, arguments @ ..] = command else {
        return Err(Failure::usage("this command is started by leasehold itself"));
    };
    die_with(guardian)?;
    let is_given = permission.read_exact(&mut [0]).is_ok();
    if !is_given || dup2_stdin(rights.stdin.as_fd()).is_err() {
        return Ok(NOT_EXECUTABLE); // the guardian has died
    }
    if begin.lend_terminal {
        // Without a terminal the command still runs, in the background.
        let _gone = Terminal::of_this_process().map(|it| it.listen_to(Some(getpid())));
    }
    // A process that was stopped or suspended must not begin after the end of the lease.
    if begin.on_lost != OnLost::Ignore && CLOCK.now() >= Instant::from_origin(begin.until) {
        return Ok(LOST);
    }
    // A signal that was sent to this process meanwhile ends it here.
    if callers_mask.thread_set_mask().is_err() {
        return Ok(NOT_EXECUTABLE);
    }
    // This sets SIGPIPE to its default, even if the caller ignored it. Every Rust program ignores
    // SIGPIPE before its first line runs, so the caller's setting is no longer known. Programs are
    // written for the default: a script must end when its reader has gone.
    let variables = begin.variables.iter().map(|(name, value)| (name, value));
    let error = Command::new(program).args(arguments).envs(variables).exec();
    let exit = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let program = program.to_string_lossy();
    Verbosity::default().error(format_args!("cannot execute {program}: {error}"));
    Ok(exit)
}

/// Asks the kernel to kill the command if its guardian dies, because nobody would supervise the
/// command then. The kernel drops this request when it executes a program with a set-user-ID bit.
fn die_with(guardian: Pid) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};

        let dead = || Failure::new(NOT_EXECUTABLE, "the guardian of the command has died");
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|_| dead())?;
        // The guardian may have died before this request. Then another process is the parent by
        // now.
        if getppid() != Some(guardian) {
            return Err(dead());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _known = guardian;
    Ok(())
}
