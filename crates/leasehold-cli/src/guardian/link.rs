//! Leasehold's side of its guardian.

use std::ffi::OsString;
use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;

use super::wire::{self, Begin, Incoming, Order, Report};
use super::{MODE, own_program};

/// A running guardian, and through it the command.
#[derive(Debug)]
pub(crate) struct Link {
    guardian: Child,
    orders: OwnedWriteHalf,
    reports: Incoming,
    group: Option<Pid>,
}

impl Link {
    /// Starts a guardian, and has it start the command with this process's stdin, stdout, stderr
    /// and environment, and the given variables on top. From then on stdin and stdout belong to
    /// the command alone.
    pub(crate) async fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        lifeline: Option<OwnedFd>,
        begin: Begin,
    ) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let mut guardian = own_program()?;
        guardian.arg(MODE).args(command);
        guardian.envs(variables.iter().map(|(name, value)| (name, value)));
        // In a group of its own: what is sent to leasehold's whole group (kill -9 %1) or typed at
        // the terminal must not hit the one who ends the command in time.
        let guardian =
            guardian.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0).spawn()?;
        let lifeline = lifeline.as_ref().map(AsFd::as_fd);
        wire::send_rights(&ours, stdin().as_fd(), lifeline)?;
        wire::forget_stdio()?;
        ours.set_nonblocking(true)?;
        let (reports, orders) = UnixStream::from_std(ours)?.into_split();
        let mut link = Self { guardian, orders, reports: wire::incoming(reports), group: None };
        link.order(Order::Begin(begin)).await;
        Ok(link)
    }

    /// Tells the guardian something.
    pub(crate) async fn order(&mut self, order: Order) {
        // If it is dead, the end of its reports says so.
        let _dead = wire::send(&mut self.orders, &order).await;
    }

    /// What the guardian tells next; `None` when it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn report(&mut self) -> Option<Report> {
        let report = wire::receive(&mut self.reports).await;
        if let Some(Report::Started { group }) = report {
            self.group = Pid::from_raw(group);
        }
        report
    }

    /// The command's group, once it is known.
    pub(crate) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// Waits for the guardian to end.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.guardian.wait()
    }

    /// The guardian died before the command: the kernel has killed the command, and this kills
    /// what it had started.
    pub(crate) fn kill_group(&self) {
        if let Some(group) = self.group {
            let _empty = kill_process_group(group, Signal::KILL);
        }
    }
}
