//! Starts this program again: as the guardian, or as the holder process of `take`.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
#[cfg(target_os = "linux")]
use std::{
    ffi::{CStr, OsStr},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// First argument of the guardian. It cannot be mistaken for a lock, an option or a file, because
/// the first argument is always a subcommand.
pub(crate) const MODE: &str = "@guardian";

/// The command that starts this program in a mode such as [`MODE`], even if the program's file was
/// replaced or removed since. Without `/proc`, as in a bare `chroot`, the command starts the file
/// from which this process was started.
pub(crate) fn relaunched(mode: &str) -> io::Result<Command> {
    #[cfg(target_os = "linux")]
    let program = own_program(Path::new("/proc/self/exe"), rustix::param::linux_execfn())?;
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.arg0("leasehold").arg(mode);
    Ok(command)
}

#[cfg(target_os = "linux")]
fn own_program(link: &Path, started_by: &CStr) -> io::Result<PathBuf> {
    let Err(error) = link.symlink_metadata() else { return Ok(link.to_owned()) };
    let file = PathBuf::from(OsStr::from_bytes(started_by.to_bytes()));
    if file.is_file() {
        return Ok(file);
    }
    let why = format!("{}: {error}: leasehold starts itself from it: mount /proc", link.display());
    Err(io::Error::new(error.kind(), why))
}

/// Names this process after the program, for `ps` and `top`. The kernel had named it after the link
/// `exe`, from which it was started.
pub(crate) fn show_as_leasehold() {
    #[cfg(target_os = "linux")]
    let _unnamed = std::fs::write("/proc/self/comm", "leasehold");
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn without_proc_it_is_the_file_that_was_started_or_it_is_said_what_is_lacking() {
        let (link, nowhere) = (Path::new("/proc/self/exe"), Path::new("/nowhere/self/exe"));
        assert_eq!(own_program(link, c"/bin/sh").unwrap(), link);
        assert_eq!(own_program(nowhere, c"/bin/sh").unwrap(), Path::new("/bin/sh"));
        for unknown in [c"", c"/bin/no-such-program", c"/bin"] {
            let error = own_program(nowhere, unknown).unwrap_err();
            assert!(error.to_string().ends_with("mount /proc"), "{error}");
        }
    }
}
