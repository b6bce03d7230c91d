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
use rustix::fs::{Mode, OFlags, open};

use super::hash;
use super::location::Location;

/// The identity of a file among all files that exist.
type FileId = (u64, u64);

/// The files that the paths of a store lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    database: FileId,
    write_lock: FileId,
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

    pub(crate) fn has_write_lock(&self, found: &Metadata) -> bool {
        self.write_lock == id(found)
    }

    fn text(&self) -> String {
        let Self { database, write_lock, log, shared_memory } = self;
        format!("files {} {} {} {}", database.1, write_lock.1, log.1, shared_memory.1)
    }
}

fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
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
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Users {
    /// Whether there are other users of the database, in this process or another.
    pub(crate) fn are_others(&self) -> io::Result<bool> {
        self.are_users_of("")
    }

    /// While others have the database open, the paths must lead to the files that they use. Their
    /// leases must run on the clock of this process.
    pub(crate) fn agree(&self, location: &Location) -> Result<(), StoreError> {
        let failed = |error| location.io_error("ask who has it open", error);
        if !self.are_others().map_err(failed)? {
            return Ok(());
        }
        match Files::at(location) {
            Ok((files, _)) if self.are_users_of(&files.text()).map_err(failed)? => {}
            _ => return Err(location.replaced()),
        }
        match self.are_users_of(&self.clock).map_err(failed)? {
            true => Ok(()),
            false => Err(location.other_clock()),
        }
    }

    /// Joins the processes that have the database open, until this value is dropped.
    pub(crate) fn join(&self, files: &Files) -> io::Result<()> {
        for about in ["", &files.text(), &self.clock] {
            self.set(&lock(nix::libc::F_RDLCK, self.byte(about), 1))?;
        }
        Ok(())
    }

    fn are_users_of(&self, about: &str) -> io::Result<bool> {
        // If an exclusive lock would be refused, somebody else has a shared one.
        let mut found = lock(nix::libc::F_WRLCK, self.byte(about), 1);
        nix::fcntl::fcntl(&self.directory, nix::fcntl::FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok(i32::from(found.l_type) != nix::libc::F_UNLCK)
    }

    /// The offset is at most half of the largest `off_t`, so that offset plus length cannot
    /// overflow.
    fn byte(&self, about: &str) -> i64 {
        (hash(&[&self.name[..], about.as_bytes()].join(&0)) >> 2) as i64
    }

    /// Sets a lock of the open file description (OFD). A lock of the process would end when the
    /// process closes the directory anywhere else.
    fn set(&self, lock: &nix::libc::flock) -> io::Result<()> {
        nix::fcntl::fcntl(&self.directory, nix::fcntl::FcntlArg::F_OFD_SETLK(lock))?;
        Ok(())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for Users {
    fn drop(&mut self) {
        // Closing is not enough: a child process has copies of all descriptors for a moment while
        // it is started. A length of zero means all bytes.
        let _ = self.set(&lock(nix::libc::F_UNLCK, 0, 0));
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn lock(kind: i32, start: i64, length: i64) -> nix::libc::flock {
    nix::libc::flock {
        l_type: kind as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

/// On other systems, nothing shows that there are users.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Users {
    pub(crate) fn are_others(&self) -> io::Result<bool> {
        Ok(false)
    }

    pub(crate) fn agree(&self, _location: &Location) -> Result<(), StoreError> {
        Ok(())
    }

    pub(crate) fn join(&self, _files: &Files) -> io::Result<()> {
        Ok(())
    }
}
