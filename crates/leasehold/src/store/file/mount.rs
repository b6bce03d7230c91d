//! Mounts.

use std::path::Path;

/// Whether something is mounted on a file itself: then its log and the directory beside it are
/// others than at the path where it comes from. Linux tells since 5.8.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_mounted_alone(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn is_mounted_alone(_path: &Path) -> bool {
    false
}
