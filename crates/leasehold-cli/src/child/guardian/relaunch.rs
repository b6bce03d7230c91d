//! This program started by itself: as the guardian, or as the process that holds what was taken.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// First argument of the guardian. No lock, option or file name of the command line can be
/// mistaken for it, because only a subcommand can stand there.
pub(crate) const MODE: &str = "@guardian";

/// This program in one of these modes, even if its file was replaced or removed since it was
/// started.
pub(crate) fn relaunched(mode: &str) -> io::Result<Command> {
    let program = match cfg!(target_os = "linux") {
        true => own_program(Path::new("/proc/self/exe"))?,
        false => std::env::current_exe()?,
    };
    let mut command = Command::new(program);
    command.arg0("leasehold").arg(mode);
    Ok(command)
}

fn own_program(link: &Path) -> io::Result<PathBuf> {
    match link.symlink_metadata() {
        Ok(_) => Ok(link.to_owned()),
        Err(error) => {
            let why = format!(
                "{}: {error}: leasehold starts itself by it, so mount /proc",
                link.display()
            );
            Err(io::Error::new(error.kind(), why))
        }
    }
}

/// Gives this process the name of the program: the kernel took it from the link it was started by,
/// `exe`, and `ps` and `top` show it.
pub(crate) fn show_as_leasehold() {
    #[cfg(target_os = "linux")]
    let _unnamed = std::fs::write("/proc/self/comm", "leasehold");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_proc_it_is_said_what_is_lacking() {
        let error = own_program(Path::new("/nowhere/self/exe")).unwrap_err();
        assert!(error.to_string().ends_with("so mount /proc"), "{error}");
        assert!(own_program(Path::new("/proc/self/exe")).is_ok());
    }
}
