//! Where holder processes listen: a directory of this user alone.
//!
//! The path of a socket follows from the client that holds the lease, and from nothing else that a
//! handle says: a handle may come from anybody.

use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use leasehold::admin::ClientId;
use rustix::process::geteuid;

/// What group and others may do there: nothing.
const OTHERS: u32 = 0o077;

/// What to do where there is no such directory.
const REMEDY: &str = "set XDG_RUNTIME_DIR to a directory in which this user can write";

/// The socket of a new holder process, in a directory that is made for it.
pub(super) fn socket_of(client: ClientId) -> io::Result<PathBuf> {
    Ok(own_directory()?.join(file_name(client)))
}

/// Makes the directory, unless it is there.
///
/// # Errors
///
/// Why there is none, and the remedy.
pub(super) fn own_directory() -> io::Result<PathBuf> {
    let directory = of_environment().unwrap_or_else(of_temporary_files);
    let shown = directory.display();
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("{shown}: {error}: {REMEDY}"));
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    if !is_private(&directory) {
        let why = format!("{shown} is not a directory of this user alone: remove it, or {REMEDY}");
        return Err(io::Error::other(why));
    }
    Ok(directory)
}

/// Where a holder process of this user's may listen. `give` may run in another environment than
/// `take` did, by cron, say.
pub(super) fn sockets_of(client: ClientId) -> Vec<PathBuf> {
    let of_login = Path::new("/run/user").join(geteuid().as_raw().to_string()).join("leasehold");
    let places = of_environment().into_iter().chain([of_login, of_temporary_files()]);
    let own = places.filter(|directory| is_private(directory));
    own.map(|directory| directory.join(file_name(client))).collect()
}

fn of_environment() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
    Some(Path::new(&runtime).join("leasehold"))
}

fn of_temporary_files() -> PathBuf {
    std::env::temp_dir().join(format!("leasehold-{}", geteuid().as_raw()))
}

fn is_private(directory: &Path) -> bool {
    symlink_metadata(directory).is_ok_and(|found| {
        found.is_dir() && found.mode() & OTHERS == 0 && found.uid() == geteuid().as_raw()
    })
}

/// Half of the id distinguishes a client from all others. It leaves room in the path of a socket,
/// which may have 107 bytes.
fn file_name(client: ClientId) -> String {
    format!("{:016x}", (client.0 >> 64) as u64)
}
