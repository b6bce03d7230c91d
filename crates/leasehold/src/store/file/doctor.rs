//! Checks for faults that would break a promise of a file store, or keep it from working.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use leasehold_core::{Error, StoreError, StoreErrorKind};

use super::access::NEW;
use super::location::Location;
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

/// Checks a database and the files around it, even if the database does not exist yet.
///
/// # Errors
///
/// If rights are missing or the path is wrong, so that the database cannot be used.
pub(super) async fn examine(path: PathBuf) -> Result<Vec<Finding>, Error> {
    let place = format!("file:{}", path.display());
    let findings = tokio::task::spawn_blocking(move || {
        findings(&path).or_else(|error| Ok(vec![unusable(&place, error)?]))
    });
    findings.await.unwrap_or_else(|_| {
        let text = "looking at the file was interrupted";
        Err(StoreError::new(StoreErrorKind::Unreachable, text).into())
    })
}

fn findings(path: &Path) -> Result<Vec<Finding>, Error> {
    let location = Location::check(path)?;
    let place = format!("file:{}", location.database.display());
    let failed = |error| location.io_error("look at it", error);
    location.check_rights()?;
    let is_there = location.database.exists();
    if is_there {
        schema::check_read_only(&location)?;
    }
    let what = if is_there { "a database" } else { "not there yet" };
    let found = format!("{what}, on a local file system: its locks hold on this machine only");
    Ok(vec![
        Topic(&place, "reachable").ok(found),
        permissions(&place, &location).map_err(failed)?,
        room(&place, &location).map_err(failed)?,
    ])
}

/// The finding about a store that exists and cannot be used.
fn unusable(place: &str, error: Error) -> Result<Finding, Error> {
    use StoreErrorKind::{Corrupt, Full, Unsupported, Version};
    match &error {
        Error::Store(found) if matches!(found.kind(), Corrupt | Full | Unsupported | Version) => {
            let (topic, remedy) = (Topic(place, "version"), "mend that, or name another path");
            Ok(topic.danger(found.to_string(), "nothing can be locked", remedy))
        }
        _ => Err(error),
    }
}

/// Checks the permissions: a user who may write the file may end every lock in it.
fn permissions(place: &str, location: &Location) -> io::Result<Finding> {
    let topic = Topic(place, "rights");
    let around = fs::metadata(location.directory())?;
    let (mode, group) = fs::metadata(&location.database)
        .map_or((NEW, around.gid()), |found| (found.mode() & 0o777, found.gid()));
    let outside = around.mode() & 0o1777;
    // In the group's own directory the group may write: any of its members may be the one who
    // creates the files beside the database.
    let is_groups = mode == FOR_A_GROUP && around.gid() == group;
    let strangers = if is_groups { OTHERS_WRITE & !GROUP_WRITES } else { OTHERS_WRITE };
    Ok(if outside & strangers != 0 && outside & STICKY == 0 {
        topic.warning(
            format!("others may write its directory (mode {outside:04o})"),
            "others can replace the file; some would then lock in the old one, some in the new one",
            &format!("chmod go-w {}", location.directory().display()),
        )
    } else if mode & OTHERS == 0 || mode == FOR_A_GROUP {
        topic.ok(format!("the file is for its user, or for group {group} (mode {mode:04o})"))
    } else {
        let remedy = format!("chmod go= {0}, or 660 for a group", location.database.display());
        topic.warning(
            format!("others may open it (mode {mode:04o})"),
            "they can end locks",
            &remedy,
        )
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
