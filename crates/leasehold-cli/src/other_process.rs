//! Watches another process, for a lock that is held until that process ends.

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::task::{JoinHandle, spawn_blocking};
#[cfg(target_os = "linux")]
use {
    rustix::event::{PollFd, PollFlags, poll},
    rustix::process::{PidfdFlags, pidfd_open},
};

use crate::report::Failure;

/// A process that existed when it was looked up. The task is done when the process has ended.
#[derive(Debug)]
pub(crate) struct OtherProcess(JoinHandle<()>);

impl OtherProcess {
    /// Looks a process up, within a runtime.
    ///
    /// # Errors
    ///
    /// If there is no process with this number.
    pub(crate) fn find(pid: Pid) -> Result<Self, Failure> {
        let end = end_of_process(pid).map_err(|error| {
            let is_gone = error.raw_os_error() == Some(Errno::SRCH.raw_os_error());
            let why = match is_gone {
                true => "there is no such process".to_owned(),
                false => format!("cannot see when it ends: {error}"),
            };
            Failure::usage(format!("--pid {}: {why}", pid.as_raw_nonzero()))
        })?;
        // The thread is not joined: it waits until the other process ends, or this one.
        Ok(Self(spawn_blocking(end)))
    }
}

/// Returns a function that waits until exactly this process ends, even if its number is used again.
#[cfg(target_os = "linux")]
fn end_of_process(pid: Pid) -> io::Result<impl FnOnce() + Send + 'static> {
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(
        move || {
            while let Err(Errno::INTR) = poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) {}
        },
    )
}

/// Returns a function that waits until no process has this number. It may return up to a second
/// late.
#[cfg(not(target_os = "linux"))]
fn end_of_process(pid: Pid) -> io::Result<impl FnOnce() + Send + 'static> {
    use rustix::process::test_kill_process;
    let is_gone = move || test_kill_process(pid) == Err(Errno::SRCH);
    if is_gone() {
        return Err(Errno::SRCH.into());
    }
    Ok(move || {
        while !is_gone() {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    })
}

/// Completes once when the process has ended, or never if there is none to wait for.
pub(crate) async fn end_of(process: Option<&mut OtherProcess>) {
    match process {
        Some(OtherProcess(end)) => drop(end.await),
        None => std::future::pending().await,
    }
}
