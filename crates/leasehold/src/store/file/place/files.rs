//! The files that the paths of a store lead to.

use std::fs::{Metadata, metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use leasehold_core::StoreError;

use super::location::Location;

/// The identity of a file among all files that exist.
pub(crate) type FileId = (u64, u64);

/// The files that the paths of a store lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    database: FileId,
    pub(crate) write_lock: FileId,
    log: FileId,
    shared_memory: FileId,
}

/// The lengths of two of the files, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) database: u64,
    pub(crate) log: u64,
}

impl Files {
    /// # Cost
    ///
    /// Four system calls, some 3 µs.
    pub(crate) fn at(location: &Location) -> io::Result<(Self, Lengths)> {
        let (database, log) = (metadata(&location.database)?, metadata(&location.log)?);
        let files = Self {
            database: id(&database),
            write_lock: id(&metadata(&location.write_lock)?),
            log: id(&log),
            shared_memory: id(&metadata(&location.shared_memory)?),
        };
        Ok((files, Lengths { database: database.len(), log: log.len() }))
    }

    /// Looks at the paths again, and refuses other files than these.
    pub(crate) fn check(&self, location: &Location) -> Result<Lengths, StoreError> {
        match Self::at(location) {
            Ok((files, lengths)) if files == *self => Ok(lengths),
            Ok(_) => Err(location.replaced()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(location.replaced()),
            Err(error) => Err(location.io_error("look at it", error)),
        }
    }

    pub(crate) fn inodes(&self) -> [u64; 3] {
        [self.database.1, self.log.1, self.shared_memory.1]
    }
}

pub(crate) fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}
