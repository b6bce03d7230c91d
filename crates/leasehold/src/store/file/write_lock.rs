//! The write lock of the file store: one process at a time uses the database, and processes are
//! served in the order of arrival.
//!
//! SQLite waits for its own lock by sleeping and trying again. So an unlucky process may wait for
//! ever, and a hundred processes burn processor time. The kernel keeps the waiters of a file lock
//! in a queue, and wakes one at a time. This lock is only for that order: without it, SQLite's lock
//! still keeps transactions apart.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags, flock, openat};
use rustix::io::retry_on_intr;

use super::access::Access;

pub(crate) const FILE_NAME: &str = "gate";

/// A file whose lock is the right to use the database.
#[derive(Debug)]
pub(crate) struct WriteLock(Arc<File>);

/// The right to use the database, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<File>);

impl WriteLock {
    pub(crate) fn open(directory: BorrowedFd<'_>, access: Access) -> io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(directory, FILE_NAME, flags, access.of_file())?;
        access.give(&file)?;
        Ok(Self(Arc::new(file.into())))
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Takes the lock, or waits for it. That takes long only if a process was stopped while it had
    /// the lock.
    pub(crate) fn lock(&self) -> io::Result<Turn> {
        retry_on_intr(|| flock(&self.0, FlockOperation::LockExclusive))?;
        Ok(Turn(Arc::clone(&self.0)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The call cannot fail on a descriptor that is open and was locked.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
