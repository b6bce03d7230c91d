//! The directory in which holder processes listen: only this user can use it.
//!
//! The path of a socket depends only on the id of the client that holds the lease. No other part of
//! a handle is used, because a handle may be forged.

use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use leasehold::admin::ClientId;
use rustix::process::geteuid;

/// The rights of group and others. The directory must not grant any of them.
const OTHERS: u32 = 0o077;

/// The remedy if there is no such directory.
const REMEDY: &str = "set XDG_RUNTIME_DIR to a directory in which this user can write";

/// The path of the socket of a new holder process. Makes the directory if it is missing.
pub(super) fn socket_of(client: ClientId) -> io::Result<PathBuf> {
    Ok(own_directory()?.join(file_name(client)))
}

/// Makes the directory, unless it is there.
///
/// # Errors
///
/// If the directory cannot be made or used. The error names the remedy.
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

/// The paths where a holder process of this user may listen. There are several because `give` may
/// run in another environment than `take` did, for example in cron.
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
