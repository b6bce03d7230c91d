//! The files that the paths of a store lead to, and who uses them.
//!
//! Two databases under one path would be two locks under one name. So every transaction looks at
//! the paths. A process that opens the store asks whether others use the same files and clock.
//!
//! Each process that has the database open holds shared locks on three bytes of the *directory*
//! around it. One byte stands for the name of the database, one for its files, and one for its
//! clock. These locks outlive `rm` of every file of the store. Every user who may read the
//! directory sees them, also through bind mounts. They end with the process.

use std::fs::{Metadata, metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

use leasehold_core::StoreError;
#[cfg(any(target_os = "linux", target_os = "android"))]
use nix::fcntl::{FcntlArg, fcntl};
#[cfg(any(target_os = "linux", target_os = "android"))]
use nix::libc;
use rustix::fs::{Mode, OFlags, open};

use super::error::{OTHER_CLOCK, REPLACED};
use super::location::Location;

/// The identity of a file among all files that exist.
pub(crate) type FileId = (u64, u64);

/// The files that the paths of a store lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files {
    /// The database, its log, its shared memory and the file of the write lock.
    pub(crate) ids: [FileId; 4],
    /// The lengths of the database and of its log, in bytes.
    pub(crate) database: u64,
    pub(crate) log: u64,
}

impl Files {
    /// # Cost
    ///
    /// Four system calls, some 3 µs.
    pub(crate) fn at(location: &Location) -> io::Result<Self> {
        let Location { database, log, shared_memory, write_lock, .. } = location;
        let (database, log) = (metadata(database)?, metadata(log)?);
        let (shared_memory, write_lock) = (metadata(shared_memory)?, metadata(write_lock)?);
        let ids = [&database, &log, &shared_memory, &write_lock].map(id);
        Ok(Self { ids, database: database.len(), log: log.len() })
    }

    /// Looks at the paths again, and refuses other files than these.
    pub(crate) fn check(&self, location: &Location) -> Result<Self, StoreError> {
        match Self::at(location) {
            Ok(files) if files.ids == self.ids => Ok(files),
            Err(error) if error.kind() != io::ErrorKind::NotFound => location.io(Err(error)),
            Ok(_) | Err(_) => Err(location.error(REPLACED)),
        }
    }

    fn text(&self) -> String {
        format!("files {:?}", self.ids.map(|(_, number)| number))
    }
}

pub(crate) fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

/// FNV-1a: the same in every process and release.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The processes that use a database, as the locks on its directory show them.
#[derive(Debug)]
pub(crate) struct Users {
    directory: OwnedFd,
    name: Vec<u8>,
    clock: String,
}

impl Users {
    /// `boot` stands for the clock of this process.
    pub(crate) fn open(location: &Location, boot: &str) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let name = location.database.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        let directory = open(location.directory(), flags, Mode::empty())?;
        Ok(Self { directory, name, clock: format!("clock {boot}") })
    }

    /// While others have the database open, the paths must lead to the files that they use. Their
    /// leases must run on the clock of this process. Returns whether there are others, in this
    /// process or another.
    pub(crate) fn agree(&self, location: &Location) -> Result<bool, StoreError> {
        let is_used = |about: &str| location.io(self.is_locked(about));
        if !is_used("")? {
            return Ok(false);
        }
        match Files::at(location) {
            Ok(files) if is_used(&files.text())? => {}
            _ => return Err(location.error(REPLACED)),
        }
        if is_used(&self.clock)? { Ok(true) } else { Err(location.error(OTHER_CLOCK)) }
    }

    /// Joins the processes that have the database open, until this value is dropped.
    pub(crate) fn join(&self, files: &Files) -> io::Result<()> {
        ["", &files.text(), &self.clock].into_iter().try_for_each(|about| self.lock(about))
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Users {
    fn is_locked(&self, about: &str) -> io::Result<bool> {
        // If an exclusive lock would be refused, somebody else has a shared one.
        let mut found = self.byte_lock(libc::F_WRLCK, about);
        fcntl(&self.directory, FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }

    /// Takes a lock of the open file description (OFD). A lock of the process would end when the
    /// process closes the directory anywhere else.
    fn lock(&self, about: &str) -> io::Result<()> {
        fcntl(&self.directory, FcntlArg::F_OFD_SETLK(&self.byte_lock(libc::F_RDLCK, about)))?;
        Ok(())
    }

    fn byte_lock(&self, kind: i32, about: &str) -> libc::flock {
        // At most half of the largest `off_t`, so that offset plus length cannot overflow.
        let byte = hash(&[&self.name[..], about.as_bytes()].join(&0)) >> 2;
        let (l_type, l_whence) = (kind as i16, libc::SEEK_SET as i16);
        libc::flock { l_type, l_whence, l_start: byte as i64, l_len: 1, l_pid: 0 }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for Users {
    fn drop(&mut self) {
        // Closing is not enough: a child process has copies of all descriptors for a moment while
        // it is started. A length of zero means all bytes.
        let all = libc::flock { l_start: 0, l_len: 0, ..self.byte_lock(libc::F_UNLCK, "") };
        let _ = fcntl(&self.directory, FcntlArg::F_OFD_SETLK(&all));
    }
}

/// On other systems, nothing shows that there are users.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Users {
    fn is_locked(&self, _about: &str) -> io::Result<bool> {
        Ok(false)
    }

    fn lock(&self, _about: &str) -> io::Result<()> {
        Ok(())
    }
}
