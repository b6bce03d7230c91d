//! The place of a file store: its paths, the files to which they lead, and the other users.

mod access;
mod files;
mod location;
mod write_lock;

pub(crate) use self::access::{Access, NEW};
pub(crate) use self::files::{Files, Lengths, Users};
pub(crate) use self::location::Location;
pub(crate) use self::write_lock::{WriteLock, WriteLockGuard};

/// FNV-1a: the same in every process and release.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
