//! This program started by itself: as the guardian, or as the process that holds what was taken.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// First argument of the guardian. No lock, option or file name of the command line can be
/// mistaken for it, because only a subcommand can stand there.
pub(crate) const MODE: &str = "@guardian";

/// This program in one of these modes, even if its file was replaced or removed since it was
/// started.
pub(crate) fn relaunched(mode: &str) -> io::Result<Command> {
    let program = match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => std::env::current_exe()?,
    };
    let mut command = Command::new(program);
    command.arg0("leasehold").arg(mode);
    Ok(command)
}
