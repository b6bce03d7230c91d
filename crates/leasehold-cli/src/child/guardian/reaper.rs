//! Chooses the parent of orphans: the guardian, or leasehold if the guardian dies.

use std::io;

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// Makes this process the parent of the command's orphans, so that it finds them and notices their
/// end.
pub(super) fn become_reaper() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
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
