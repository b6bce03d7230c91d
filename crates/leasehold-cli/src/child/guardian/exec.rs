//! The last step before the command: a moment of our own code in the command's process.
//!
//! What must be done there (asking the kernel for a death signal, taking the terminal) would
//! otherwise be done between `fork` and `exec`, where only unsafe code can run. So the guardian
//! starts this program once more (`@exec`), which does it and then becomes the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use leasehold::time::{Clock as _, Instant};
use rustix::process::{Pid, getpid};
use rustix::stdio::dup2_stdin;

use super::protocol::{self, Begin};
use super::relaunch::{EXEC_MODE, relaunched};
use super::timing::CLOCK;
use crate::args::OnLost;
use crate::report::{Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, Outcome, Voice};
use crate::terminal;

/// The lease's end, where nobody minds it.
const NEVER: &str = "never";

/// Says yes in the arguments of this step, which are positional because nobody types them.
const YES: &str = "yes";

/// Builds the command line of this step.
pub(super) fn stage(command: &[OsString], begin: &Begin) -> io::Result<Command> {
    let mut stage = relaunched(EXEC_MODE)?;
    let valid_until = match begin.on_lost {
        OnLost::Ignore => NEVER.to_owned(),
        OnLost::Kill | OnLost::Term => begin.until_us.to_string(),
    };
    let lend_terminal = if begin.lend_terminal { YES } else { "no" };
    stage.args([&getpid().to_string(), &valid_until, lend_terminal]).args(command);
    Ok(stage)
}

/// Becomes the command. Returns only if that fails.
pub(crate) fn main(arguments: &[OsString]) -> Outcome {
    let [guardian, valid_until, lend_terminal, program, arguments @ ..] = arguments else {
        return Err(Failure::usage("this command is started by leasehold itself"));
    };
    die_with(guardian)?;
    if take_stdin().is_err() {
        return Ok(NOT_EXECUTABLE); // the guardian has died
    }
    if lend_terminal == YES {
        // Without a terminal the command runs all the same, in the background.
        let _gone = terminal::give_to(getpid());
    }
    // A process that was stopped or suspended since the grant must not begin after the lease.
    if is_over(valid_until) {
        return Ok(LOST);
    }
    // This sets PIPE to its default, whatever the caller had: the start-up of every program in Rust
    // has it ignored before the first line of ours, and what was before is not known any more. The
    // default is what programs are written for; a script that is left by its reader must end.
    let error = Command::new(program).args(arguments).exec();
    let exit = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let program = program.to_string_lossy();
    Voice::usual().error(format_args!("cannot execute {program}: {error}"));
    Ok(exit)
}

/// Waits for the command's stdin, which the guardian gives when the command may begin.
fn take_stdin() -> io::Result<()> {
    let (_control, rights) = protocol::receive_rights()?;
    Ok(dup2_stdin(rights.stdin)?)
}

fn is_over(valid_until: &OsString) -> bool {
    let until_us = valid_until.to_str().and_then(|us| us.parse().ok());
    until_us.is_some_and(|us| CLOCK.now() >= Instant::from_origin(Duration::from_micros(us)))
}

/// Asks the kernel to kill the command if its guardian dies: nobody would supervise it then. The
/// kernel forgets the wish when it executes a program with a set-user-ID bit.
fn die_with(guardian: &OsString) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};

        let dead = || Failure::new(NOT_EXECUTABLE, "the guardian of the command has died");
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|_| dead())?;
        // It may have died before the kernel knew: then another process is the parent by now.
        let expected = guardian.to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        if getppid() != expected {
            return Err(dead());
        }
    }
    Ok(())
}
