//! Who becomes the parent of orphans: the guardian, and leasehold should the guardian die.

use std::io;

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// Orphans of the command become children of this process, so that it finds them and notices their
/// end.
pub(super) fn become_reaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Has orphans of the command become children of leasehold if the guardian dies, so that they can
/// be found. It does not do so if leasehold has another child already: leasehold was executed by a
/// program that had children. Their orphans could not be told from those of the command.
pub(super) fn become_second_reaper() -> bool {
    let is_childless = matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD));
    is_childless && become_reaper().is_ok()
}
