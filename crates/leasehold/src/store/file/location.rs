//! The location of a file store: its paths, whether a database can work there, and the files that
//! must exist before it is opened.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use leasehold_core::{Error, InvalidInput, StoreError, StoreErrorKind};
use rustix::fs::{Access as Right, AtFlags, CWD, Stat, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::access::{Access, NEW};
use crate::store::place::invalid;

/// The directory with the files of running processes has the name of the database and this suffix.
const SIDE_SUFFIX: &str = ".clients";

/// The name of the file in that directory whose lock is the right to use the database.
pub(crate) const WRITE_LOCK: &str = "gate";

/// The path in a URL of a file store, which has no options: `file:PATH`.
pub(crate) fn path(url: &str) -> Result<PathBuf, InvalidInput> {
    let no_file = || invalid("the store URL of a file begins with `file:`");
    let rest = url.strip_prefix("file:").ok_or_else(no_file)?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let option = query.split(['&', '=']).next().unwrap_or_default();
    if !option.is_empty() {
        let why = "a file store has no options";
        return Err(invalid(format!("the store URL has the unknown option {option:?}: {why}")));
    }
    if path.starts_with("//") && !path.starts_with("///") {
        let why = "the store URL names a host, and a file store is local: write file:PATH";
        return Err(invalid(why));
    }
    if path == "~" || path.starts_with("~/") {
        // A shell expands `~` at the beginning of a word only.
        let rest = &path[1..];
        let why = format!("`~` stands for no directory in a store URL: write file:$HOME{rest}");
        return Err(invalid(why));
    }
    file_name(Path::new(path)).map(|_| path.into())
}

/// The name of the file at a path.
fn file_name(path: &Path) -> Result<&OsStr, InvalidInput> {
    let name = path.file_name().filter(|_| !path.to_string_lossy().ends_with('/'));
    let shown = path.display();
    let why = || format!("file:{shown} names no file: write file:PATH, as in file:locks.db");
    name.ok_or_else(|| invalid(why()))
}

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

impl Location {
    /// Checks a path before anything is created.
    pub(crate) fn check(path: &Path) -> Result<Self, Error> {
        Self::check_on(network_file_system, path)
    }

    fn check_on(
        network: impl Fn(&Path) -> io::Result<Option<&'static str>>,
        path: &Path,
    ) -> Result<Self, Error> {
        let shown = path.display();
        let name = file_name(path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        // All processes must use the same files, whatever links lead there, and even if a process
        // changes its directory.
        let found = fs::canonicalize(parent.join("."));
        let directory = found.map_err(|error| unusable(path, parent, error))?;
        let database = fs::canonicalize(path).unwrap_or_else(|_| directory.join(name));
        let beside = |suffix: &str| {
            let path = [database.as_os_str(), suffix.as_ref()].join("".as_ref());
            PathBuf::from(path)
        };
        let (log, shared_memory, side) = (beside("-wal"), beside("-shm"), beside(SIDE_SUFFIX));
        let write_lock = side.join(WRITE_LOCK);
        let location = Self { database, log, shared_memory, side, write_lock };
        let found = fs::metadata(&location.database).ok();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            let why = format!("file:{shown} is no regular file: name another, as in file:locks.db");
            return Err(invalid(why).into());
        }
        if let Some(kind) = location.io(network(location.directory()))? {
            // Locks and shared memory do not reach across machines, although they seem to on most
            // network file systems.
            let what = format!(
                " is on {kind}, where locks of other machines may not be seen: name a path on a \
                 local disk, or use a server (redis://…)"
            );
            return Err(location.error((StoreErrorKind::Unsupported, what)).into());
        }
        if found.is_some_and(|found| found.nlink() > 1) || is_mounted_alone(&location.database) {
            // Each path would have its own log, and see its own locks only.
            let what = " has hard links, or is mounted as a single file, and locks by one path are \
                        not seen by the other: leave one path and use symbolic links, or mount the \
                        directory that it is in";
            return Err(location.error((StoreErrorKind::Unsupported, what)).into());
        }
        Ok(location)
    }

    /// The directory that the database is in.
    pub(crate) fn directory(&self) -> &Path {
        self.database.parent().unwrap_or(Path::new("/"))
    }

    /// Refuses a database that this user may not use, or may not create.
    pub(crate) fn check_rights(&self) -> Result<(), StoreError> {
        let of_file = Right::READ_OK | Right::WRITE_OK;
        let ask = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
        self.io(match ask(&self.database, of_file) {
            Err(Errno::NOENT) => ask(self.directory(), of_file | Right::EXEC_OK),
            found => found,
        })
    }

    /// Refuses the directory beside the database if another user owns it, or if somebody may write
    /// to it who may not write to the database: such users could end the leases of others.
    pub(crate) fn refuse_others_side(&self, side: &Stat, access: Access) -> Result<(), StoreError> {
        let in_group = fs::metadata(self.directory()).is_ok_and(|found| found.mode() & 0o002 == 0);
        let Some(fault) = access.trouble_with(side, in_group) else { return Ok(()) };
        let what = format!(
            ": {} {fault}, who could end the locks of others: remove it if no process uses it, or \
             name a path in a directory that others cannot write to",
            self.side.display()
        );
        Err(self.error((StoreErrorKind::Denied, what)))
    }

    /// The finding about a database of another user in a directory where all users may create
    /// files.
    pub(crate) fn others_database(&self) -> Option<String> {
        let [found, place] = [&*self.database, self.directory()].map(fs::metadata);
        let (owner, place) = (found.ok()?.uid(), place.ok()?.mode());
        let is_others = owner != geteuid().as_raw() && owner != 0 && place & 0o1002 == 0o1002;
        is_others.then(|| {
            format!(
                "file:{} belongs to user {owner}, in a directory where all may write: that user \
                 decides who else has these locks, and can end them: name a path in a directory \
                 that others cannot write to",
                self.database.display()
            )
        })
    }

    /// Creates an empty database if there is none. An existing database is not even opened: closing
    /// it again would drop the locks that another connection of this process has on it.
    pub(crate) fn create_database(&self) -> Result<(), StoreError> {
        let mut options = fs::OpenOptions::new();
        match options.write(true).create_new(true).mode(NEW).open(&self.database) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => self.io(created.map(drop)),
        }
    }
}

/// The error for a path that leads to no directory for a database.
fn unusable(path: &Path, parent: &Path, error: io::Error) -> Error {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "allow it",
        io::ErrorKind::InvalidFilename => "name a shorter path",
        io::ErrorKind::NotFound => "create it first",
        _ => "name another",
    };
    let (shown, parent) = (path.display(), parent.display());
    let why = format!("file:{shown}: the directory {parent}: {error}: {remedy}");
    match error.kind() {
        io::ErrorKind::PermissionDenied => StoreError::new(StoreErrorKind::Denied, why).into(),
        _ => invalid(why).into(),
    }
}

/// The network file system that a directory is on.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn network_file_system(directory: &Path) -> io::Result<Option<&'static str>> {
    // The field's type differs between platforms; the magic numbers have 32 bits everywhere.
    Ok(network_of(rustix::fs::statfs(directory)?.f_type as u32))
}

/// The network file system with this magic number of statfs(2), from its manual page and
/// linux/magic.h.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn network_of(magic: u32) -> Option<&'static str> {
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
    use rustix::fs::{StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn network_file_system(_directory: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_mounted_alone(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(url: &str) -> String {
        path(url).unwrap().into_os_string().into_string().unwrap()
    }

    fn why(url: &str) -> String {
        path(url).unwrap_err().why
    }

    #[test]
    fn a_url_is_a_path_and_is_refused_for_hosts() {
        assert_eq!(path_of("file:/a b/c.db"), "/a b/c.db");
        assert_eq!(path_of("file:///a/c.db"), "///a/c.db");
        assert_eq!(path_of("file:c.db"), "c.db");
        assert!(why("file://host/c.db").contains("names a host"));
        assert!(why("file:~/c.db").contains("write file:$HOME/c.db"));
        assert_eq!(path_of("file:./~/c.db"), "./~/c.db");
    }

    #[test]
    fn a_url_has_no_options() {
        assert!(why("file:c.db?timeout=3s").contains("the unknown option \"timeout\""));
        assert_eq!(path_of("file:c.db?"), "c.db");
    }

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
            (format!("{here}"), "name another"),
            (format!("{here}/nowhere/locks.db"), "create it first"),
            (format!("{here}/file/locks.db"), "name another"),
            (format!("{here}/file/below/locks.db"), "name another"),
            (format!("{here}/{}/locks.db", "d".repeat(256)), "name a shorter path"),
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

    #[test]
    fn a_link_to_a_network_file_system_is_refused_and_a_link_on_one_is_not() {
        let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let network = |at: &Path| Ok((at == fs::canonicalize(&there).unwrap()).then_some("NFS"));
        for (from, to, is_refused) in [(&here, &there, true), (&there, &here, false)] {
            let [link, database] = [from.path().join("link.db"), to.path().join("locks.db")];
            fs::write(&database, "").unwrap();
            std::os::unix::fs::symlink(&database, &link).unwrap();
            let checked = Location::check_on(network, &link).map_err(|error| error.to_string());
            assert_eq!(checked.is_err_and(|error| error.contains(" is on NFS")), is_refused);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_told_by_their_magic() {
        assert_eq!(network_of(0x6969), Some("NFS"));
        assert_eq!(network_of(0xEF53), None, "ext4");
        assert_eq!(network_of(0x0102_1994), None, "tmpfs");
    }
}
