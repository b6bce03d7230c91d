//! Access to the files of a database: each user who may use its file may use all of them.
//!
//! A file that was made for a group (`install -g GROUP -m 660 /dev/null PATH`) is used by several
//! users. Each of them makes files beside it, and all the others must be able to open those: the
//! file of the write lock, and each pipe, which shows whether its client is alive. So each new file
//! gets the mode and the group of the database, whatever the umask is. If root creates it, it also
//! gets the database's owner.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Stat, Uid, chownat, fchmod, fchown, fstat, stat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The mode of a new database, which is for its user only.
pub(crate) const NEW: u32 = 0o600;

/// The mode bits that open a file to its group, and to others. A user who may only read is shut
/// out: a reader of a pipe would be taken for the client that the pipe stands for.
const GROUP: u32 = 0o060;
const OTHERS: u32 = 0o006;

/// The mode bit by which new files in a directory get the directory's group.
const INHERITED: u32 = 0o2000;

/// The users of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The mode of a file: a user who may read it may also write it.
    mode: u32,
    /// The owner of the database; `None` if it does not exist yet, and will belong to this user.
    owner: Option<(Uid, Gid)>,
}

impl Access {
    /// The users of the database at a path.
    pub(crate) fn of(database: &Path) -> io::Result<Self> {
        let found = match stat(database) {
            Err(Errno::NOENT) => return Ok(Self { mode: NEW, owner: None }),
            found => found?,
        };
        let owner = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
        Ok(Self { mode: shared(found.st_mode), owner: Some(owner) })
    }

    /// Whether users other than its owner may use the database.
    pub(crate) fn is_shared(self) -> bool {
        self.mode != NEW
    }

    /// What is wrong with the directory beside the database, if a stranger to the database owns it
    /// or may write to it. If `in_group`, any member of the group may own it: nobody else could
    /// have made it.
    pub(crate) fn trouble_with(self, side: &Stat, in_group: bool) -> Option<String> {
        if self.mode & OTHERS == OTHERS {
            return None; // nobody is a stranger
        }
        let (owner, group) = self.owner.unwrap_or((geteuid(), Gid::from_raw(side.st_gid)));
        let is_groups = self.mode & GROUP == GROUP && group.as_raw() == side.st_gid;
        let is_users = [0, owner.as_raw()].contains(&side.st_uid) || is_groups && in_group;
        if !is_users {
            return Some(format!("belongs to user {}", side.st_uid));
        }
        let strangers = if is_groups { 0o002 } else { 0o022 };
        let is_open = side.st_mode & strangers != 0;
        is_open.then(|| "may be written by users who may not write it".to_owned())
    }

    /// The mode of a file or a pipe that is made for the database.
    pub(crate) fn of_file(self) -> Mode {
        Mode::from_raw_mode(self.mode)
    }

    /// The mode of a directory that is made for the database.
    pub(crate) fn of_directory(self) -> u32 {
        let search = (self.mode & 0o444) >> 2;
        let inherited = if self.is_shared() { INHERITED } else { 0 };
        self.mode | search | inherited
    }

    /// Gives the users of the database access to an open file, if it belongs to this user. A file
    /// of another user is left as it is.
    pub(crate) fn give(self, made: impl AsFd) -> io::Result<()> {
        let (made, user) = (made.as_fd(), geteuid());
        let found = fstat(made)?;
        if found.st_uid != user.as_raw() {
            return Ok(());
        }
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let mode = if is_directory { self.of_directory() } else { self.mode };
        if let Some((owner, group)) = self.owner {
            let owner = Some(owner).filter(|owner| user.is_root() && !owner.is_root());
            // A user who is not in the group cannot give the file to it. Then the group stays, and
            // only the mode is set.
            let _ = fchown(made, owner, Some(group));
        }
        if found.st_mode & 0o7777 != mode {
            fchmod(made, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    /// Gives the group of the database to a file that SQLite has made beside it. SQLite sets the
    /// mode itself, and the owner if it runs as root.
    pub(crate) fn give_group(self, path: &Path) {
        let Some((_, group)) = self.owner.filter(|_| self.is_shared()) else { return };
        if fs::symlink_metadata(path).is_ok_and(|found| found.gid() != group.as_raw()) {
            // The file is not opened for this: closing it would drop the locks that SQLite has on
            // it.
            let _ = chownat(CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW);
        }
    }
}

fn shared(mode: u32) -> u32 {
    [GROUP, OTHERS].into_iter().filter(|class| mode & class == *class).fold(NEW, |all, it| all | it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_only_read_is_shut_out_and_directories_can_be_searched() {
        for (mode, file, directory) in [
            (0o600, 0o600, 0o700),
            (0o644, 0o600, 0o700),
            (0o400, 0o600, 0o700),
            (0o660, 0o660, 0o2770),
            (0o664, 0o660, 0o2770),
            (0o666, 0o666, 0o2777),
        ] {
            let access = Access { mode: shared(mode), owner: None };
            assert_eq!((access.mode, access.of_directory()), (file, directory), "{mode:o}");
        }
    }
}
