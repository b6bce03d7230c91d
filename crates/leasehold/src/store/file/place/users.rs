//! Whether anybody else has the database open, even if its files have been removed meanwhile.
//!
//! Each process that has the database open holds a shared lock on one byte of the *directory*
//! around it; the name of the database selects the byte. The lock outlives `rm` of every file of
//! the store. Every user who may read the directory sees the lock, also through bind mounts. The
//! lock ends with the process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};

use super::hash;
use super::location::Location;

/// A directory, and the byte of it that stands for one database.
#[derive(Debug)]
pub(crate) struct Users {
    directory: OwnedFd,
    byte: i64,
}

impl Users {
    pub(crate) fn open(location: &Location) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let name = location.database.file_name().unwrap_or_default();
        // The offset is at most half of the largest `off_t`, so that offset plus length (1) cannot
        // overflow.
        let byte = (hash(name.as_encoded_bytes()) >> 2) as i64;
        Ok(Self { directory: open(location.directory(), flags, Mode::empty())?, byte })
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Users {
    /// Joins the processes that have the database open, until this value is dropped.
    pub(crate) fn join(&self) -> io::Result<()> {
        self.set(nix::libc::F_RDLCK)
    }

    /// Whether there are other users of the database, in this process or another.
    pub(crate) fn are_others(&self) -> io::Result<bool> {
        // If an exclusive lock would be refused, somebody else has a shared one.
        let mut lock = self.lock(nix::libc::F_WRLCK);
        nix::fcntl::fcntl(&self.directory, nix::fcntl::FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(i32::from(lock.l_type) != nix::libc::F_UNLCK)
    }

    /// Sets a lock of the open file description (OFD). A lock of the process would end when the
    /// process closes the directory anywhere else.
    fn set(&self, kind: i32) -> io::Result<()> {
        let lock = self.lock(kind);
        nix::fcntl::fcntl(&self.directory, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock))?;
        Ok(())
    }

    fn lock(&self, kind: i32) -> nix::libc::flock {
        nix::libc::flock {
            l_type: kind as i16,
            l_whence: nix::libc::SEEK_SET as i16,
            l_start: self.byte,
            l_len: 1,
            l_pid: 0,
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for Users {
    fn drop(&mut self) {
        // Closing is not enough: a child process has copies of all descriptors for a moment while
        // it is started.
        let _ = self.set(nix::libc::F_UNLCK);
    }
}

/// On other systems, only the pipes of clients show that there are users.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Users {
    pub(crate) fn join(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn are_others(&self) -> io::Result<bool> {
        Ok(false)
    }
}
