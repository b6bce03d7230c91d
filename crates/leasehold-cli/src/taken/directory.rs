//! Where holder processes listen: a directory of this user alone.

use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use leasehold::admin::ClientId;
use rustix::process::geteuid;

/// What group and others may do there: nothing.
const OTHERS: u32 = 0o077;

/// The socket of a holder process. Half of the id is enough to tell it from all others, and leaves
/// room in the 107 bytes that the path of a socket may have.
pub(super) fn socket_of(client: ClientId) -> io::Result<PathBuf> {
    let directory = match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("leasehold"),
        None => std::env::temp_dir().join(format!("leasehold-{}", geteuid().as_raw())),
    };
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", directory.display())));
        }
        Ok(()) | Err(_) => {}
    }
    let found = symlink_metadata(&directory)?;
    let is_private = found.is_dir() && found.mode() & OTHERS == 0;
    if !is_private || found.uid() != geteuid().as_raw() {
        let why = format!(
            "{} is not a directory of this user alone: remove it, or set XDG_RUNTIME_DIR",
            directory.display()
        );
        return Err(io::Error::other(why));
    }
    Ok(directory.join(format!("{:016x}", (client.0 >> 64) as u64)))
}
