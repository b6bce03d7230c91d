//! Checks for faults that would break a promise of a file store, or keep it from working.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leasehold_core::{Error, StoreError, StoreErrorKind};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::access::{self, NEW};
use super::location::Location;
use super::options::FileOptions;
use super::schema;
use crate::store::finding::{Finding, Topic};

/// A disk with less free space than this is too full for a database: 16 MiB.
const FULL: u64 = 16 << 20;

/// A disk with less free space than this is nearly full: 256 MiB, a few hours of a busy log file.
const NEARLY_FULL: u64 = 256 << 20;

/// The rights of users other than the owner: group and others.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The mode of a file that was made for a group, and for nobody else.
const FOR_A_GROUP: u32 = 0o660;
const GROUP_WRITES: u32 = 0o020;

/// Checks the database of a URL and the files around it, even if the database does not exist yet.
///
/// # Errors
///
/// If rights are missing or the path is wrong, so that the database cannot be used.
pub(super) async fn examine(url: &str) -> Result<Vec<Finding>, Error> {
    let location = match Location::check(&FileOptions::from_url(url)?.path) {
        Ok(location) => location,
        Err(error) => return unusable(url, error).map(|finding| vec![finding]),
    };
    let shown = format!("file:{}", location.database.display());
    let findings = tokio::task::spawn_blocking(move || findings(&location)).await;
    findings.unwrap_or_else(|_| {
        let text = format!("{shown}: looking at the file was interrupted");
        Err(StoreError::new(StoreErrorKind::Unreachable, text).into())
    })
}

fn findings(location: &Location) -> Result<Vec<Finding>, Error> {
    let place = format!("file:{}", location.database.display());
    let failed = |error| location.io_error("look at it", error);
    allowed(location)?;
    let is_there = location.database.exists();
    if is_there && let Err(error) = schema::check_read_only(location) {
        return unusable(&place, error.into()).map(|finding| vec![finding]);
    }
    let what = if is_there { "a database" } else { "not there yet" };
    let found = format!("{what}, on a local file system: its locks hold on this machine only");
    let mut findings = vec![Topic(&place, "store").ok(found)];
    if let Some([found, harm, remedy]) = location.others_database() {
        let found = found.strip_prefix(&place).unwrap_or(&found).trim_start();
        findings.push(Topic(&place, "owner").danger(found, &harm, &remedy));
    }
    findings.push(permissions(&place, location).map_err(failed)?);
    findings.push(room(&place, location).map_err(failed)?);
    Ok(findings)
}

/// Checks that this user may use the files that exist, and may create those that do not.
fn allowed(location: &Location) -> Result<(), StoreError> {
    let of_file = Access::READ_OK | Access::WRITE_OK;
    let of_directory = of_file | Access::EXEC_OK;
    let ask = |path: &Path, access| match accessat(CWD, path, access, AtFlags::EACCESS) {
        Err(Errno::NOENT) => accessat(CWD, location.directory(), of_directory, AtFlags::EACCESS)
            .map_err(|error| location.io_error("make it", error)),
        Err(error) if *path == location.side => Err(location.beside_error(error)),
        found => found.map_err(|error| location.io_error("use it", error)),
    };
    ask(&location.database, of_file)?;
    ask(&location.side, of_directory)?;
    let found = access::Access::of(&location.database);
    let access = found.map_err(|error| location.io_error("look at it", error))?;
    let Ok(mut side) = rustix::fs::lstat(&location.side) else { return Ok(()) };
    // If this user owns the directory, opening the store gives it the right mode.
    if side.st_uid == geteuid().as_raw() {
        side.st_mode = access.of_directory();
    }
    location.refuse_others_side(&side, access)
}

/// The finding about a store that exists and cannot be used.
fn unusable(place: &str, error: Error) -> Result<Finding, Error> {
    let Error::Store(found) = &error else { return Err(error) };
    match found.kind() {
        StoreErrorKind::Corrupt
        | StoreErrorKind::Full
        | StoreErrorKind::Unsupported
        | StoreErrorKind::Version => {
            let text = found.to_string();
            let found = text.strip_prefix(place).unwrap_or(&text).trim_start_matches([':', ' ']);
            let (found, remedy) = found.rsplit_once(": ").unwrap_or((found, "name another path"));
            Ok(Topic(place, "store").danger(found, "nothing can be locked", remedy))
        }
        _ => Err(error),
    }
}

/// Checks the permissions: a user who may write the file may end every lock in it.
fn permissions(place: &str, location: &Location) -> io::Result<Finding> {
    let topic = Topic(place, "permissions");
    let directory = location.directory();
    let around = fs::metadata(directory)?;
    let (mode, group) = fs::metadata(&location.database)
        .map_or((NEW, around.gid()), |found| (found.mode() & 0o777, found.gid()));
    let outside = around.mode() & 0o1777;
    let is_for_a_group = mode == FOR_A_GROUP;
    // In the group's own directory the group may write: any of its members may be the one who
    // creates the files beside the database.
    let are_its_own = is_for_a_group && around.gid() == group;
    let strangers = if are_its_own { OTHERS_WRITE & !GROUP_WRITES } else { OTHERS_WRITE };
    if outside & strangers != 0 && outside & STICKY == 0 {
        return Ok(topic.warning(
            format!("others may write its directory (mode {outside:04o})"),
            "others can replace the file; some would then lock in the old one, some in the new one",
            format!("chmod go-w {}", directory.display()),
        ));
    }
    if is_for_a_group {
        let found = format!("the file is shared by the users of group {group} (mode {mode:04o})");
        return Ok(topic.ok(found));
    }
    if mode & OTHERS != 0 {
        let shown = location.database.display();
        return Ok(topic.warning(
            format!("others may open it (mode {mode:04o})"),
            "those users can end every lock, and see who holds what",
            format!("chmod go= {shown}; or share it with a group: chmod 660"),
        ));
    }
    Ok(topic.ok(format!("the file is for its user only (mode {mode:04o})")))
}

fn room(place: &str, location: &Location) -> io::Result<Finding> {
    let found = rustix::fs::statvfs(location.directory())?;
    Ok(judge_room(place, found.f_bavail.saturating_mul(found.f_frsize)))
}

fn judge_room(place: &str, free: u64) -> Finding {
    let text = format!("{} MiB are free on its disk", free >> 20);
    let topic = Topic(place, "disk");
    let (risk, remedy) = ("on a full disk nothing new can be locked", "make room on the disk");
    match free {
        0..FULL => topic.danger(text, risk, remedy),
        FULL..NEARLY_FULL => topic.warning(text, risk, remedy),
        _ => topic.ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[test]
    fn a_disk_that_is_nearly_full_is_told_of() {
        let room = |free| judge_room("file:a", free).level;
        assert_eq!(room(FULL - 1), Level::Danger);
        assert_eq!(room(NEARLY_FULL - 1), Level::Warning);
        assert_eq!(room(NEARLY_FULL), Level::Ok);
    }
}
