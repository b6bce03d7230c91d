//! The location of a file store, whether a database can work there, and the errors that say so.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

use leasehold_core::{Error, InvalidInput, StoreError, StoreErrorKind};
use rusqlite::ErrorCode;
use rustix::fs::Stat;
use rustix::process::{Resource, geteuid, getrlimit};

use super::access::{Access, NEW};
use super::write_lock::{self, WriteLock};

/// The directory with the files of running processes has the name of the database and this suffix.
const SIDE_SUFFIX: &str = ".clients";

/// SQLite could not size the shared memory beside the database: the disk is full.
/// (`SQLITE_IOERR_SHMSIZE`, sqlite.org/rescode.html)
const SHARED_MEMORY_FULL: i32 = 4874;

/// SQLite could not write, or not make a file longer: if file sizes are limited, the limit is the
/// cause. (`SQLITE_IOERR_WRITE`, `SQLITE_IOERR_TRUNCATE` and `SQLITE_IOERR_SHMSIZE`)
const TOO_LONG: [i32; 3] = [778, 1546, SHARED_MEMORY_FULL];

/// The remedy for a limit of file sizes.
const RAISE_FILE_LIMIT: &str = "raise the limit of file sizes (`ulimit -f`)";

/// The paths of the database, of the files that SQLite keeps beside it, and of the directory with
/// the files of running processes.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) database: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) shared_memory: PathBuf,
    pub(crate) side: PathBuf,
    pub(crate) write_lock: PathBuf,
}

/// Whether the sizes of this process's files are limited.
fn is_file_size_limited() -> bool {
    getrlimit(Resource::Fsize).current.is_some()
}

impl Location {
    /// Checks a path before anything is created.
    pub(crate) fn check(path: &Path) -> Result<Self, Error> {
        let Some(name) = path.file_name().filter(|_| !path.to_string_lossy().ends_with('/')) else {
            let shown = path.display();
            let why = format!("file:{shown} names no file: write file:PATH, as in file:locks.db");
            return Err(InvalidInput::new("url", why).into());
        };
        let shown = path.display();
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        // All processes must use the same files, whatever links lead there, and even if a process
        // changes its directory.
        let parent = match fs::canonicalize(parent.join(".")) {
            Ok(parent) => parent,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let text = format!("file:{shown}: {}: {error}: allow it", parent.display());
                return Err(StoreError::new(StoreErrorKind::Denied, text).into());
            }
            Err(error) => return Err(no_directory(path, parent, &error).into()),
        };
        let database = fs::canonicalize(path).unwrap_or_else(|_| parent.join(name));
        match fs::metadata(&database) {
            Ok(found) if found.is_dir() => {
                let why =
                    format!("file:{shown} is a directory: name a file, as in {shown}/locks.db");
                return Err(InvalidInput::new("url", why).into());
            }
            Ok(found) if !found.is_file() => {
                let why = format!("file:{shown} is not a regular file: name another");
                return Err(InvalidInput::new("url", why).into());
            }
            Ok(_) | Err(_) => {}
        }
        let beside = |suffix: &str| {
            let mut path = database.clone().into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        };
        let (log, shared_memory, side) = (beside("-wal"), beside("-shm"), beside(SIDE_SUFFIX));
        let write_lock = side.join(write_lock::FILE_NAME);
        if is_too_long(&side) {
            return Err(too_long(path).into());
        }
        let location = Self { database, log, shared_memory, side, write_lock };
        location.refuse_network(&parent)?;
        location.refuse_second_path()?;
        Ok(location)
    }

    /// The directory that the database is in.
    pub(crate) fn directory(&self) -> &Path {
        self.database.parent().unwrap_or(Path::new("/"))
    }

    /// Refuses the directory beside the database if another user owns it, or if somebody may write
    /// to it who may not write to the database: such users could end the leases of others.
    pub(crate) fn refuse_others_side(&self, side: &Stat, access: Access) -> Result<(), StoreError> {
        let in_group = fs::metadata(self.directory()).is_ok_and(|found| found.mode() & 0o002 == 0);
        let Some(what) = access.trouble_with(side, in_group) else { return Ok(()) };
        let (shown, side) = (self.database.display(), self.side.display());
        let text = format!(
            "file:{shown}: {side} {what}, who could end the locks of others: remove it if no \
             process uses it, or name a path in a directory that others cannot write to"
        );
        Err(StoreError::new(StoreErrorKind::Denied, text))
    }

    /// The finding about a database of another user in a directory where all users may create
    /// files.
    pub(crate) fn others_database(&self) -> Option<[String; 3]> {
        let [found, place] = [&*self.database, self.directory()].map(fs::metadata);
        let (owner, place) = (found.ok()?.uid(), place.ok()?.mode());
        let is_others = owner != geteuid().as_raw() && owner != 0 && place & 0o1002 == 0o1002;
        is_others.then(|| {
            let shown = self.database.display();
            [
                format!("file:{shown} belongs to user {owner}, in a directory where all may write"),
                "that user decides who else has these locks, and can end them".to_owned(),
                "name a path in a directory that others cannot write to".to_owned(),
            ]
        })
    }

    /// Creates the directory beside the database, for the users of the database, if it does not
    /// exist. Several processes may do so at the same time.
    pub(crate) fn create_side(&self, access: Access) -> Result<(), StoreError> {
        let created = match access.is_shared() {
            // The directory is renamed into place with the write lock's file already in it.
            // Otherwise processes that come while it is being made would be refused.
            true if self.side.exists() => Ok(()),
            true => self.create_shared_side(access),
            false => fs::DirBuilder::new().mode(access.of_directory()).create(&self.side),
        };
        self.found_is_fine(&format!("make {} beside it", self.side.display()), created)
    }

    fn create_shared_side(&self, access: Access) -> io::Result<()> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|error| io::Error::other(error.to_string()))?;
        let name = format!(".leasehold-{:016x}", u64::from_ne_bytes(number));
        let new = self.directory().join(name);
        fs::DirBuilder::new().mode(0o700).create(&new)?;
        let made = fs::File::open(&new).and_then(|directory| {
            access.give(&directory)?;
            WriteLock::open(directory.as_fd(), access)?;
            fs::rename(&new, &self.side)
        });
        if made.is_err() {
            let _ = fs::remove_dir_all(&new);
        }
        match made {
            // Another process was faster.
            Err(_) if self.side.exists() => Ok(()),
            made => made,
        }
    }

    /// Creates an empty database if there is none. An existing database is not even opened: closing
    /// it again would drop the locks that another connection of this process has on it.
    pub(crate) fn create_database(&self) -> Result<(), StoreError> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(NEW);
        self.found_is_fine("create it", options.open(&self.database).map(drop))
    }

    fn found_is_fine(&self, doing: &str, created: io::Result<()>) -> Result<(), StoreError> {
        match created {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(self.io_error(doing, error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The error for a child whose parent had a file store open at the fork.
    pub(crate) fn forked(&self) -> StoreError {
        let shown = self.database.display();
        let text = format!(
            "file:{shown}: the parent of this process had a file store open, and SQLite cannot be \
             used on both sides of a fork: connect in the child only, or start the process by \
             exec, or use a server (redis://…)"
        );
        StoreError::new(StoreErrorKind::Unsupported, text)
    }

    /// Refuses a second path to the same database: each path would have its own log, and see its
    /// own locks only.
    fn refuse_second_path(&self) -> Result<(), StoreError> {
        let shown = self.database.display();
        let text = match fs::metadata(&self.database) {
            Ok(found) if found.nlink() > 1 => format!(
                "file:{shown} has {} hard links, and locks by one of them are not seen by the \
                 others: leave one, and use symbolic links",
                found.nlink()
            ),
            Ok(_) if is_mounted_alone(&self.database) => format!(
                "file:{shown} is mounted as a single file, and locks are not seen where it comes \
                 from: mount the directory that it is in"
            ),
            Ok(_) | Err(_) => return Ok(()),
        };
        Err(StoreError::new(StoreErrorKind::Unsupported, text))
    }

    /// The error for a database whose processes no longer all use the same files.
    pub(crate) fn replaced(&self) -> StoreError {
        let shown = self.database.display();
        let text = format!(
            "file:{shown} or a file beside it was removed or replaced while it is in use: end \
             all processes that use it, and start again"
        );
        StoreError::new(StoreErrorKind::Corrupt, text)
    }

    /// The error for a process with another clock: leases of one clock cannot be judged by another.
    pub(crate) fn other_clock(&self) -> StoreError {
        let shown = self.database.display();
        let text = format!(
            "file:{shown} is in use by processes with another boot id or time namespace, whose \
             leases run on another clock: give them one clock, or use a server (redis://…)"
        );
        StoreError::new(StoreErrorKind::Unsupported, text)
    }

    /// The error for a full disk. The store has set some space aside, only for held leases.
    pub(crate) fn full(&self) -> StoreError {
        let shown = self.database.display();
        let (what, remedy) = match is_file_size_limited() {
            true => ("the file cannot grow", RAISE_FILE_LIMIT),
            false => ("the disk of the file is full", "make room on the disk"),
        };
        let text = format!(
            "file:{shown}: {what}, except for the reserve that renews and releases held locks: \
             {remedy}"
        );
        StoreError::new(StoreErrorKind::Full, text)
    }

    /// The error for a database with impossible content.
    pub(crate) fn damaged(&self, what: &str, remedy: &str) -> StoreError {
        let shown = self.database.display();
        let text = format!("file:{shown}: {what} is damaged: {remedy}");
        StoreError::new(StoreErrorKind::Corrupt, text)
    }

    /// The error for an I/O error in the directory beside the database. If access to it is denied,
    /// another user has made it. The parent directory may be fine, so the remedy differs from that
    /// of `io_error`.
    pub(crate) fn beside_error(&self, error: io::Error) -> StoreError {
        let (shown, side) = (self.database.display(), self.side.display());
        if error.kind() != io::ErrorKind::PermissionDenied {
            return self.io_error(&format!("use {side} beside it"), error);
        }
        let text = format!(
            "file:{shown}: cannot use {side} beside it ({error}): name another path; or, to share \
             it with a group, have its owner run `chgrp -R GROUP {shown}*` and `chmod -R g+rwX \
             {shown}*`"
        );
        StoreError::new(StoreErrorKind::Denied, text).with_source(error)
    }

    /// The error for an I/O error at the database or at a file beside it; `doing` says at what.
    pub(crate) fn io_error(&self, doing: &str, error: io::Error) -> StoreError {
        let (kind, remedy) = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                (StoreErrorKind::Denied, "allow this user to write there, or name another path")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (StoreErrorKind::Full, "make room on the disk")
            }
            io::ErrorKind::FileTooLarge => (StoreErrorKind::Full, RAISE_FILE_LIMIT),
            _ => (StoreErrorKind::Unreachable, "look at its directory, and the open files' limit"),
        };
        let shown = self.database.display();
        StoreError::new(kind, format!("file:{shown}: cannot {doing} ({error}): {remedy}"))
            .with_source(error)
    }

    /// The error of SQLite, with a remedy.
    pub(crate) fn database_error(&self, error: rusqlite::Error) -> StoreError {
        let code = error.sqlite_error_code();
        let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
        let (kind, remedy) = match code {
            // Nobody has used the file as a store, so it is something else.
            Some(ErrorCode::NotADatabase) if !self.side.exists() => {
                (StoreErrorKind::Corrupt, "name another path")
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
                StoreErrorKind::Corrupt,
                "stop what uses it and move it away, with its -wal file; a new one is created",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (StoreErrorKind::Timeout, "another program keeps it locked: end that program")
            }
            Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory) => {
                (StoreErrorKind::Full, "make room")
            }
            Some(ErrorCode::SystemIoFailure)
                if TOO_LONG.contains(&extended) && is_file_size_limited() =>
            {
                (StoreErrorKind::Full, RAISE_FILE_LIMIT)
            }
            Some(ErrorCode::SystemIoFailure) if extended == SHARED_MEMORY_FULL => {
                (StoreErrorKind::Full, "make room on the disk")
            }
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => (
                StoreErrorKind::Denied,
                "allow this user to write the file, its -wal and -shm files and its directory",
            ),
            _ => (StoreErrorKind::Unreachable, "look at the disk that the file is on"),
        };
        let shown = self.database.display();
        StoreError::new(kind, format!("file:{shown}: {error}: {remedy}")).with_source(error)
    }

    /// The error for a database, or a record, that another release has written.
    pub(crate) fn other_version(&self, found: u32) -> StoreError {
        let shown = self.database.display();
        let text = format!(
            "file:{shown} has version {found}, which this release of leasehold does not know: use \
             one release everywhere, or another path"
        );
        StoreError::new(StoreErrorKind::Version, text)
    }

    /// Whether named pipes can be made beside the database, judged by the kind of file system.
    pub(crate) fn may_have_pipes(&self) -> io::Result<bool> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let FAT | EX_FAT = rustix::fs::statfs(self.directory())?.f_type as u32 {
            return Ok(false);
        }
        Ok(!cfg!(target_vendor = "apple"))
    }

    /// Refuses a network file system: locks and shared memory do not reach across machines,
    /// although they seem to on most network file systems.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn refuse_network(&self, directory: &Path) -> Result<(), StoreError> {
        let found = rustix::fs::statfs(directory)
            .map_err(|error| self.io_error("look at its file system", error.into()))?;
        // The field's type differs between platforms; the magic numbers have 32 bits everywhere.
        let Some(kind) = network_file_system(found.f_type as u32) else { return Ok(()) };
        let shown = self.database.display();
        let text = format!(
            "file:{shown} is on {kind}, where locks of other machines may not be seen: name a \
             path on a local disk, or use a server (redis://…)"
        );
        Err(StoreError::new(StoreErrorKind::Unsupported, text))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn refuse_network(&self, _directory: &Path) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The error for a path that leads to no directory for a database.
fn no_directory(path: &Path, parent: &Path, error: &io::Error) -> InvalidInput {
    let (shown, parent) = (path.display(), parent.display());
    let why = match error.kind() {
        io::ErrorKind::InvalidFilename => return too_long(path),
        io::ErrorKind::NotFound => {
            format!("file:{shown}: there is no directory {parent}: create it first")
        }
        io::ErrorKind::NotADirectory => {
            format!("file:{shown}: {parent} is no directory: name another")
        }
        _ => format!("file:{shown}: {parent}: {error}: name another"),
    };
    InvalidInput::new("url", why)
}

fn is_too_long(path: &Path) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_err_and(|error| error.kind() == io::ErrorKind::InvalidFilename)
}

fn too_long(path: &Path) -> InvalidInput {
    let why = format!(
        "file:{} is too long for the system, with {SIDE_SUFFIX} behind it: name a shorter path",
        path.display()
    );
    InvalidInput::new("url", why)
}

/// File systems without special files. (linux/magic.h)
#[cfg(any(target_os = "linux", target_os = "android"))]
const FAT: u32 = 0x4D44;
#[cfg(any(target_os = "linux", target_os = "android"))]
const EX_FAT: u32 = 0x2011_BAB0;

/// Magic numbers of statfs(2), from its manual page and linux/magic.h.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn network_file_system(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517B | 0xFE53_4D42 | 0xFF53_4D42 => "SMB",
        0x0102_1997 => "9P",
        0x00C3_6400 => "CephFS",
        0x0BD0_0BD0 => "Lustre",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x6573_5546 => "FUSE (perhaps a network file system)",
        0x7375_7245 => "Coda",
        0x786F_4256 => "a VirtualBox shared folder",
        _ => return None,
    })
}

/// Whether the file itself is a mount point. Its log and the directory beside it then differ from
/// those at its original path. Linux reports this since 5.8.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_mounted_alone(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_mounted_alone(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_a_database_is_refused_with_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().display();
        fs::write(directory.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("loop", directory.path().join("loop")).unwrap();
        for (path, remedy) in [
            (String::new(), "write file:PATH"),
            ("/".into(), "write file:PATH"),
            (format!("{here}/"), "write file:PATH"),
            (format!("{here}"), "name a file"),
            (format!("{here}/nowhere/locks.db"), "create it first"),
            (format!("{here}/file/locks.db"), "is no directory"),
            (format!("{here}/file/below/locks.db"), "is no directory"),
            (format!("{here}/{}/locks.db", "d".repeat(256)), "name a shorter path"),
            (format!("{here}/{}", "f".repeat(256)), "name a shorter path"),
            // The file could be created, but the files beside it could not.
            (format!("{here}/{}", "f".repeat(250)), "name a shorter path"),
            (format!("{here}/loop/locks.db"), "name another"),
            ("/dev/null".into(), "name another"),
        ] {
            let error = Location::check(Path::new(&path)).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{path}: {error:?}");
            assert!(error.to_string().contains(remedy), "{path}: {error}");
        }
    }

    #[test]
    fn links_lead_to_the_same_files() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().join("real.db");
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        fs::write(&real, "").unwrap();
        let (real, link) = (Location::check(&real).unwrap(), Location::check(&link).unwrap());
        assert_eq!((real.database, real.side), (link.database, link.side));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_told_by_their_magic() {
        assert_eq!(network_file_system(0x6969), Some("NFS"));
        assert_eq!(network_file_system(0xEF53), None, "ext4");
        assert_eq!(network_file_system(0x0102_1994), None, "tmpfs");
    }
}
