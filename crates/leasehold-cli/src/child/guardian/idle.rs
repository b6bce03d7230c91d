//! A guardian that waits for its command.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use super::link::Link;
use super::process::become_second_reaper;
use super::protocol::Begin;
use super::relaunch::{MODE, relaunched};
use crate::report::{Failure, NOT_EXECUTABLE};
use crate::secrets;

/// A guardian without a task yet. It ends when this value is dropped, or with this process.
#[derive(Debug)]
pub(crate) struct IdleGuardian<'a> {
    command: &'a [OsString],
    process: Process,
    control: UnixStream,
    is_reaper: bool,
}

impl<'a> IdleGuardian<'a> {
    /// Starts a guardian for this command. The start takes about as long as a grant by a local
    /// store.
    pub(crate) fn start(command: &'a [OsString]) -> Result<Self, Failure> {
        Self::spawn(command).map_err(cannot_start)
    }

    fn spawn(command: &'a [OsString]) -> io::Result<Self> {
        let is_reaper = become_second_reaper();
        let (control, theirs) = UnixStream::pair()?;
        let mut guardian = relaunched(MODE)?;
        secrets::keep_from(&mut guardian);
        guardian.args(command).stdin(Stdio::from(OwnedFd::from(theirs)));
        // The guardian has a separate group. A signal to leasehold's whole group (kill -9 %1), or
        // from the terminal, must not hit the process that ends the command in time.
        let process = Process(Some(guardian.process_group(0).spawn()?));
        Ok(Self { command, process, control, is_reaper })
    }

    /// Makes the guardian start the command with this process's stdin, stdout, stderr and
    /// environment. From then on stdin and stdout belong to the command alone.
    pub(crate) async fn begin(
        mut self,
        lifeline: Option<OwnedFd>,
        begin: &Begin,
    ) -> Result<Link, Failure> {
        if self.process.has_ended() {
            // The guardian was killed while leasehold waited for the lease.
            self = Self::start(self.command)?;
        }
        let Self { mut process, control, is_reaper, .. } = self;
        let guardian =
            process.0.take().ok_or_else(|| cannot_start(io::ErrorKind::NotFound.into()))?;
        let begun = Link::begin(guardian, control, is_reaper, lifeline, begin).await;
        begun.map_err(cannot_start)
    }
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::new(NOT_EXECUTABLE, format!("cannot start: {error}"))
}

/// A guardian's process without a task, or `None` once the process was taken out to get a task.
#[derive(Debug)]
struct Process(Option<Child>);

impl Process {
    fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // This process reaps the guardian, because the reaper of orphans might never do so.
        if let Some(child) = &mut self.0
            && child.kill().is_ok()
        {
            let _ended = child.wait();
        }
    }
}
