//! The errors of a file store: each names the file, what is wrong, and the remedy.

use std::fmt::Display;
use std::io;
use std::path::Path;

use leasehold_core::StoreError;
use leasehold_core::StoreErrorKind::{
    self, Corrupt, Denied, Full, Timeout, Unreachable, Unsupported, Version,
};
use rusqlite::ErrorCode;

use super::location::Location;

/// SQLite could not write, make a file longer, or size the shared memory beside the database: the
/// disk or a quota is full, a file is as large as it may be, or the disk fails.
/// (`SQLITE_IOERR_WRITE`, `SQLITE_IOERR_TRUNCATE`, `SQLITE_IOERR_SHMSIZE`, sqlite.org/rescode.html)
const NOT_WRITTEN: [i32; 3] = [778, 1546, 4874];

/// The remedy for a right that is missing.
const ALLOW: &str = "allow this user to write the file and its directory, or name another path";

/// The remedy for a file that cannot grow.
const MAKE_ROOM: &str = "make room (disk, quota), or raise the limit of file sizes (`ulimit -f`)";

/// Why a store is refused: the kind of the error, and what follows the name of the file.
pub(crate) type Refusal<T = &'static str> = (StoreErrorKind, T);

/// A caller waited too long for its turn.
pub(crate) const NO_TURN: Refusal = (Timeout, ": no turn in 5 s: is one of its users stopped?");

/// Some work has panicked, or the database was closed meanwhile.
pub(crate) const INTERRUPTED: Refusal = (Timeout, ": the work was interrupted");

/// The parent of this process had a file store open at the fork.
pub(crate) const FORKED: Refusal = (
    Unsupported,
    ": the parent of this process had a file store open, and SQLite cannot be used on both sides \
     of a fork: connect in the child only, or start the process by exec, or use a server \
     (redis://…)",
);

/// The processes that use a database no longer all use the same files.
pub(crate) const REPLACED: Refusal = (
    Corrupt,
    " or a file beside it was removed or replaced while it is in use: end all processes that use \
     it, and start again",
);

/// A process has another clock: leases of one clock cannot be judged by another.
pub(crate) const OTHER_CLOCK: Refusal = (
    Unsupported,
    " is in use by processes with another boot id or time namespace, whose leases run on another \
     clock: give them one clock, or use a server (redis://…)",
);

/// The file is a database, and none of leasehold.
pub(crate) const OTHER_PROGRAM: Refusal =
    (Corrupt, " is a database of another program: name another path");

/// The store has set some disk space aside, only for held leases.
pub(crate) const FULL: Refusal = (
    Full,
    ": the file cannot grow, except for the reserve that renews and releases held locks: make \
     room on the disk, or raise the limit of file sizes (`ulimit -f`)",
);

/// The error about the file of a store.
pub(crate) fn error(database: &Path, (kind, what): Refusal<impl Display>) -> StoreError {
    StoreError::new(kind, format!("file:{}{what}", database.display()))
}

impl Location {
    pub(crate) fn error(&self, refusal: Refusal<impl Display>) -> StoreError {
        error(&self.database, refusal)
    }

    /// The error for a database that another release has written.
    pub(crate) fn other_version(&self, found: u32) -> StoreError {
        let what = format!(
            " has version {found}, which this release of leasehold does not know: use one release \
             everywhere, or another path"
        );
        self.error((Version, what))
    }

    /// The result of a system call on the files of the store.
    pub(crate) fn io<T>(&self, result: Result<T, impl Into<io::Error>>) -> Result<T, StoreError> {
        use io::ErrorKind as Kind;
        result.map_err(|error| {
            let error = error.into();
            let (shown, side) = (self.database.display(), self.side.display());
            let of_others = format!(
                "it, or {side} beside it, is for other users: name another path; or, to share it \
                 with a group, have its owner run `chgrp -R GROUP {shown}*` and `chmod -R g+rwX \
                 {shown}*`"
            );
            let (kind, remedy) = match error.kind() {
                // The store is there, so another user has made it, perhaps in a fine directory.
                Kind::PermissionDenied if self.side.exists() => (Denied, &*of_others),
                Kind::PermissionDenied | Kind::ReadOnlyFilesystem => (Denied, ALLOW),
                Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => (Full, MAKE_ROOM),
                Kind::InvalidFilename => (Unsupported, "name a shorter path"),
                _ => (Unreachable, "look at its directory, and the open files' limit"),
            };
            let what = format!(": cannot use it ({error}): {remedy}");
            self.error((kind, what)).with_source(error)
        })
    }

    /// The result of SQLite.
    pub(crate) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        use ErrorCode as Code;
        result.map_err(|error| {
            let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
            let (kind, remedy) = match error.sqlite_error_code() {
                // Nobody has used the file as a store, so it is something else.
                Some(Code::NotADatabase) if !self.side.exists() => (Corrupt, "name another path"),
                Some(Code::DatabaseCorrupt | Code::NotADatabase) => (
                    Corrupt,
                    "stop what uses it and move it away, with its -wal file; a new one is created",
                ),
                Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                    (Timeout, "another program keeps it locked: end that program")
                }
                Some(Code::DiskFull | Code::OutOfMemory) => (Full, MAKE_ROOM),
                Some(Code::SystemIoFailure) if NOT_WRITTEN.contains(&extended) => (Full, MAKE_ROOM),
                Some(Code::CannotOpen | Code::PermissionDenied | Code::ReadOnly) => (Denied, ALLOW),
                _ => (Unreachable, "look at the disk that the file is on"),
            };
            self.error((kind, format!(": {error}: {remedy}"))).with_source(error)
        })
    }
}
