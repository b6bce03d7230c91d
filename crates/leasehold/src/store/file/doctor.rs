//! Checks for faults that would break a promise of a file store, or keep it from working.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leasehold_core::{Error, StoreErrorKind};

use super::access::NEW;
use super::location::Location;
use super::schema;
use crate::store::finding::{Finding, Topic};

/// A disk with less free space than this is too full for a database: 16 MiB.
const FULL: u64 = 16 << 20;

/// A disk with less free space than this is nearly full: 256 MiB, a few hours of a busy log file.
const NEARLY_FULL: u64 = 256 << 20;

/// Checks a database and the files around it, even if the database does not exist yet.
///
/// # Errors
///
/// If rights are missing or the path is wrong, so that the database cannot be used.
pub(crate) fn examine(path: &Path) -> Result<Vec<Finding>, Error> {
    use StoreErrorKind::{Corrupt, Full, Unsupported, Version};
    let place = format!("file:{}", path.display());
    match findings(&place, path) {
        // The store exists and cannot be used.
        Err(Error::Store(found))
            if matches!(found.kind(), Corrupt | Full | Unsupported | Version) =>
        {
            let (topic, remedy) = (Topic(&place, "version"), "mend that, or name another path");
            Ok(vec![topic.danger(found.to_string(), "nothing can be locked", remedy)])
        }
        findings => findings,
    }
}

fn findings(place: &str, path: &Path) -> Result<Vec<Finding>, Error> {
    let location = Location::check(path)?;
    location.check_rights()?;
    let is_there = location.database.exists();
    if is_there {
        schema::check_read_only(&location)?;
    }
    let what = if is_there { "a database" } else { "not there yet" };
    let found = format!("{what}, on a local file system: its locks hold on this machine only");
    Ok(vec![
        Topic(place, "reachable").ok(found),
        location.io(permissions(place, &location))?,
        location.io(room(place, &location))?,
    ])
}

/// Checks the permissions: a user who may write the file may end every lock in it.
fn permissions(place: &str, location: &Location) -> io::Result<Finding> {
    let (topic, directory) = (Topic(place, "rights"), location.directory());
    let around = fs::metadata(directory)?;
    let file = fs::metadata(&location.database);
    let (mode, group) =
        file.map_or((NEW, around.gid()), |found| (found.mode() & 0o777, found.gid()));
    let is_for_a_group = mode == 0o660;
    // In the group's own directory the group may write: any of its members may be the one who
    // creates the files beside the database.
    let strangers = if is_for_a_group && around.gid() == group { 0o002 } else { 0o022 };
    let (outside, is_sticky) = (around.mode() & 0o1777, around.mode() & 0o1000 != 0);
    Ok(if outside & strangers != 0 && !is_sticky {
        topic.warning(
            format!("others may write its directory (mode {outside:04o})"),
            "others can replace the file; some would then lock in the old one, some in the new one",
            &format!("chmod go-w {}", directory.display()),
        )
    } else if mode & 0o077 == 0 || is_for_a_group {
        topic.ok(format!("the file is for its user, or for group {group} (mode {mode:04o})"))
    } else {
        let remedy = format!("chmod go= {0}, or 660 for a group", location.database.display());
        let found = format!("others may open it (mode {mode:04o})");
        topic.warning(found, "they can end locks", &remedy)
    })
}

fn room(place: &str, location: &Location) -> io::Result<Finding> {
    let found = rustix::fs::statvfs(location.directory())?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let (topic, text) = (Topic(place, "persistence"), format!("{} MiB are free", free >> 20));
    let (risk, remedy) = ("on a full disk nothing new can be locked", "make room on the disk");
    Ok(match free {
        0..FULL => topic.danger(text, risk, remedy),
        FULL..NEARLY_FULL => topic.warning(text, risk, remedy),
        _ => topic.ok(text),
    })
}
