//! The directory beside the database, with a named pipe per client and per listener, and with the
//! write lock: one process at a time uses the database, and processes are served in the order of
//! arrival.
//!
//! SQLite waits for its own lock by sleeping and trying again. So an unlucky process may wait for
//! ever, and a hundred processes burn processor time. The kernel keeps the waiters of a file lock
//! in a queue, and wakes one at a time. The write lock is only for that order: without it, SQLite's
//! lock still keeps transactions apart.
//!
//! Pipes are made, and removed when nobody reads them, under the write lock. A pipe that is made
//! but not yet open looks like that of a dead process.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use leasehold_core::StoreError;
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, flock, fstat, open, openat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::access::Access;
use super::location::{Location, WRITE_LOCK};

/// The directory, and its files.
#[derive(Debug)]
pub(crate) struct Side {
    path: PathBuf,
    directory: OwnedFd,
    access: Access,
    pub(crate) write_lock: Arc<File>,
}

/// The right to use the database, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<File>);

impl Side {
    /// Opens the directory, and makes it if it does not exist.
    pub(crate) fn open(location: &Location, access: Access) -> Result<Self, StoreError> {
        let path = location.side.clone();
        if !path.exists() {
            location.io(make(location, access))?;
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = location.io(open(&path, flags, Mode::empty()))?;
        location.io(access.give(&directory))?;
        location.refuse_others_side(&location.io(fstat(&directory))?, access)?;
        let write_lock = Arc::new(location.io(open_write_lock(&directory, access))?);
        Ok(Self { path, directory, access, write_lock })
    }

    /// Takes the write lock, or waits for it. That takes long only if a process was stopped while
    /// it had the lock.
    pub(crate) fn turn(&self) -> io::Result<Turn> {
        retry_on_intr(|| flock(&self.write_lock, FlockOperation::LockExclusive))?;
        Ok(Turn(Arc::clone(&self.write_lock)))
    }

    /// The names of the files that begin with `beginning`.
    pub(crate) fn files(&self, beginning: &str) -> io::Result<Vec<String>> {
        let entries = Dir::read_from(&self.directory)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<String>>>()?;
        names.retain(|name| name.starts_with(beginning));
        Ok(names)
    }

    /// The pipes that nobody reads. The caller has its turn.
    pub(crate) fn unread(&self) -> io::Result<Vec<String>> {
        let mut pipes = self.files("")?;
        pipes.retain(|pipe| self.writer_to(pipe).err() == Some(Errno::NXIO));
        Ok(pipes)
    }

    /// Makes a pipe and opens it. The caller has its turn. The pipe is open for writing, too, so
    /// that it does not end when the last writer leaves. All users of the database get access to
    /// it.
    pub(crate) fn make_pipe(&self, name: &str) -> io::Result<OwnedFd> {
        let mode = nix::sys::stat::Mode::from_bits_truncate(self.access.of_file().as_raw_mode());
        // The path is needed because not every system has mkfifoat(3).
        match nix::unistd::mkfifo(&self.path.join(name), mode) {
            // Another store of this process acts for this client, too.
            Ok(()) | Err(nix::Error::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let pipe = openat(&self.directory, name, flags, Mode::empty())?;
        self.access.give(&pipe)?;
        Ok(pipe)
    }

    /// Opens a pipe for writing. This end breaks when the last reader closes the pipe. The error is
    /// `ENXIO` if nobody reads it, so its process has ended. Another error proves nothing.
    pub(crate) fn writer_to(&self, pipe: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(&self.directory, pipe, flags, Mode::empty())
    }

    /// Writes a line to a pipe. Lines are hints: one that does not get through (no reader, no room)
    /// is made up for by the next question to the store.
    pub(crate) fn write(&self, pipe: &str, line: &str) {
        if let Ok(end) = self.writer_to(pipe) {
            let _ = rustix::io::write(&end, line.as_bytes());
        }
    }

    /// Removes a pipe. A pipe that cannot be removed does no harm: it is just checked again now and
    /// then.
    pub(crate) fn remove(&self, pipe: &str) {
        let _ = unlinkat(&self.directory, pipe, AtFlags::empty());
    }
}

/// Makes the directory, for the users of the database. Several processes may do so at the same
/// time.
///
/// The directory is renamed into place with the write lock's file already in it. Otherwise
/// processes of other users that come while it is being made would be refused.
fn make(location: &Location, access: Access) -> io::Result<()> {
    let number = RandomState::new().hash_one(());
    let new = location.directory().join(format!(".leasehold-{number:016x}"));
    let made = fs::DirBuilder::new().mode(0o700).create(&new).and_then(|()| {
        let directory = File::open(&new)?;
        access.give(&directory)?;
        open_write_lock(directory, access)?;
        fs::rename(&new, &location.side)
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    // Another process may have been faster.
    if location.side.exists() { Ok(()) } else { made }
}

fn open_write_lock(directory: impl AsFd, access: Access) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(directory, WRITE_LOCK, flags, access.of_file())?;
    access.give(&file)?;
    Ok(file.into())
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The call cannot fail on a descriptor that is open and was locked.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
