//! Chooses the parent of orphans: the guardian, or leasehold if the guardian dies.

use std::io;

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// Makes orphans of the command children of this process, so that this process finds them and
/// notices their end.
pub(super) fn become_reaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Makes orphans of the command children of leasehold if the guardian dies, so that leasehold finds
/// them. It does nothing if leasehold already has another child: then a program with children has
/// become leasehold (exec). Their orphans could not be distinguished from orphans of the command.
pub(super) fn become_second_reaper() -> bool {
    let is_childless = matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD));
    is_childless && become_reaper().is_ok()
}
