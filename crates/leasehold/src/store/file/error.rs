//! The errors of a file store: each names the file, what is wrong, and the remedy.

use std::fmt::Display;
use std::io;
use std::path::Path;

use leasehold_core::{StoreError, StoreErrorKind};
use rusqlite::ErrorCode;
use rustix::process::{Resource, getrlimit};

use super::location::Location;

/// SQLite could not size the shared memory beside the database: the disk is full.
/// (`SQLITE_IOERR_SHMSIZE`, sqlite.org/rescode.html)
const SHARED_MEMORY_FULL: i32 = 4874;

/// SQLite could not write, or not make a file longer. (`SQLITE_IOERR_WRITE` and
/// `SQLITE_IOERR_TRUNCATE`)
const TOO_LONG: [i32; 2] = [778, 1546];

/// Whether SQLite's extended code stands for a full disk, or for a limit of file sizes.
fn is_out_of_room(extended: i32) -> bool {
    let is_limited = || getrlimit(Resource::Fsize).current.is_some();
    extended == SHARED_MEMORY_FULL || TOO_LONG.contains(&extended) && is_limited()
}

/// The remedy for a file that cannot grow.
const MAKE_ROOM: &str = "make room on the disk, or raise the limit of file sizes (`ulimit -f`)";

/// The error for a caller that waited too long for its turn.
pub(crate) fn no_turn(database: &Path) -> StoreError {
    let text = format!("file:{}: no turn in 5 s: is one of its users stopped?", database.display());
    StoreError::new(StoreErrorKind::Timeout, text)
}

/// The error for work that has panicked.
pub(crate) fn interrupted(database: &Path) -> StoreError {
    let text = format!("file:{}: the work was interrupted", database.display());
    StoreError::new(StoreErrorKind::Timeout, text)
}

impl Location {
    /// The error of this kind; `what` says what is wrong and what mends it.
    pub(crate) fn error(&self, kind: StoreErrorKind, what: impl Display) -> StoreError {
        StoreError::new(kind, format!("file:{}{what}", self.database.display()))
    }

    /// The error for a child whose parent had a file store open at the fork.
    pub(crate) fn forked(&self) -> StoreError {
        let what = ": the parent of this process had a file store open, and SQLite cannot be used \
                    on both sides of a fork: connect in the child only, or start the process by \
                    exec, or use a server (redis://…)";
        self.error(StoreErrorKind::Unsupported, what)
    }

    /// The error for a database whose processes no longer all use the same files.
    pub(crate) fn replaced(&self) -> StoreError {
        let what = " or a file beside it was removed or replaced while it is in use: end all \
                    processes that use it, and start again";
        self.error(StoreErrorKind::Corrupt, what)
    }

    /// The error for a process with another clock: leases of one clock cannot be judged by another.
    pub(crate) fn other_clock(&self) -> StoreError {
        let what = " is in use by processes with another boot id or time namespace, whose leases \
                    run on another clock: give them one clock, or use a server (redis://…)";
        self.error(StoreErrorKind::Unsupported, what)
    }

    /// The error for a full disk. The store has set some space aside, only for held leases.
    pub(crate) fn full(&self) -> StoreError {
        let what =
            "the file cannot grow, except for the reserve that renews and releases held locks";
        self.error(StoreErrorKind::Full, format!(": {what}: {MAKE_ROOM}"))
    }

    /// The error for a database with impossible content.
    pub(crate) fn damaged(&self, what: &str, remedy: &str) -> StoreError {
        self.error(StoreErrorKind::Corrupt, format!(": {what} is damaged: {remedy}"))
    }

    /// The error for a database, or a record, that another release has written.
    pub(crate) fn other_version(&self, found: u32) -> StoreError {
        let what = format!(
            " has version {found}, which this release of leasehold does not know: use one release \
             everywhere, or another path"
        );
        self.error(StoreErrorKind::Version, what)
    }

    /// The error for an I/O error in the directory beside the database. If access to it is denied,
    /// another user has made it. The parent directory may be fine, so the remedy differs from that
    /// of `io_error`.
    pub(crate) fn beside_error(&self, error: impl Into<io::Error>) -> StoreError {
        let (error, shown, side) = (error.into(), self.database.display(), self.side.display());
        if error.kind() != io::ErrorKind::PermissionDenied {
            return self.io_error(&format!("use {side} beside it"), error);
        }
        let what = format!(
            ": cannot use {side} beside it ({error}): name another path; or, to share it with a \
             group, have its owner run `chgrp -R GROUP {shown}*` and `chmod -R g+rwX {shown}*`"
        );
        self.error(StoreErrorKind::Denied, what).with_source(error)
    }

    /// The error for an I/O error at the database or at a file beside it; `doing` says at what.
    pub(crate) fn io_error(&self, doing: &str, error: impl Into<io::Error>) -> StoreError {
        let error = error.into();
        let (kind, remedy) = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                (StoreErrorKind::Denied, "allow this user to write there, or name another path")
            }
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => (StoreErrorKind::Full, MAKE_ROOM),
            _ => (StoreErrorKind::Unreachable, "look at its directory, and the open files' limit"),
        };
        self.error(kind, format!(": cannot {doing} ({error}): {remedy}")).with_source(error)
    }

    /// The error of SQLite, with a remedy.
    pub(crate) fn database_error(&self, error: rusqlite::Error) -> StoreError {
        let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
        let (kind, remedy) = match error.sqlite_error_code() {
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
            Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory) => (StoreErrorKind::Full, MAKE_ROOM),
            Some(ErrorCode::SystemIoFailure) if is_out_of_room(extended) => {
                (StoreErrorKind::Full, MAKE_ROOM)
            }
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => (
                StoreErrorKind::Denied,
                "allow this user to write the file, its -wal and -shm files and its directory",
            ),
            _ => (StoreErrorKind::Unreachable, "look at the disk that the file is on"),
        };
        self.error(kind, format!(": {error}: {remedy}")).with_source(error)
    }
}
