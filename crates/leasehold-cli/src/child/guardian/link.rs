//! Leasehold's side of the connection to its guardian.

use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use leasehold::time::Clock as _;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::time::{sleep, timeout};

use super::descendants::Tree;
use super::protocol::{self, Begin, Incoming, Order, Report};
use super::timing::{AFTER_KILL, CLOCK, LOOK_INTERVAL, RARE_LOOK_INTERVAL};

/// How long an order may wait for room in the socket: 1 s. If a guardian was stopped for hours, the
/// socket has no room left.
const NO_ROOM: Duration = Duration::from_secs(1);

/// A running guardian, and the command that it supervises.
#[derive(Debug)]
pub(crate) struct Link {
    guardian: Child,
    orders: OwnedWriteHalf,
    reports: Incoming,
    /// The process from which the command, all that it starts, and the guardian descend.
    root: Pid,
    group: Option<Pid>,
}

impl Link {
    /// Gives a guardian its task, with this process's stdin.
    pub(super) async fn begin(
        guardian: Child,
        control: std::os::unix::net::UnixStream,
        is_reaper: bool,
        lifeline: Option<OwnedFd>,
        begin: &Begin,
    ) -> io::Result<Self> {
        let lifeline = lifeline.as_ref().map(AsFd::as_fd);
        let begin = protocol::send_rights(&control, stdin().as_fd(), lifeline, begin)?;
        protocol::forget_stdio()?;
        control.set_nonblocking(true)?;
        let (reports, orders) = UnixStream::from_std(control)?.into_split();
        let root = if is_reaper { getpid() } else { Pid::from_child(&guardian) };
        let reports = protocol::incoming(reports);
        let mut link = Self { guardian, orders, reports, root, group: None };
        link.write(&begin).await;
        Ok(link)
    }

    /// Sends an order to the guardian.
    pub(crate) async fn order(&mut self, order: Order) {
        if let Ok(line) = protocol::line(&order) {
            self.write(&line).await;
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        // If the guardian is dead, its reports end. If it does not read, the watch notices that.
        let _dead = timeout(NO_ROOM, self.orders.write_all(bytes)).await;
    }

    /// The next report of the guardian; `None` when it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn report(&mut self) -> Option<Report> {
        let report = protocol::receive(&mut self.reports).await;
        if let Some(Report::Started { group }) = report {
            self.group = Pid::from_raw(group);
        }
        report
    }

    /// The command's group, once it is known.
    pub(crate) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// Continues the guardian, if it was stopped.
    pub(crate) fn wake(&self) {
        // Its number is not used again before this process reaps it.
        let _ended = kill_process(Pid::from_child(&self.guardian), Signal::CONT);
    }

    /// Ends the command and all processes that it started, in place of the guardian. Then ends the
    /// guardian.
    pub(crate) async fn replace_guardian(&mut self, names: &str) {
        // The guardian is stopped first, so that it cannot start the command now. It is killed
        // later, because orphans are its children while it lives.
        let _ended = kill_process(Pid::from_child(&self.guardian), Signal::STOP);
        self.end_all(names).await;
        let _ended = self.guardian.kill();
    }

    /// Waits for the guardian to end, and ends the processes that it has left.
    pub(crate) async fn outlive_guardian(&mut self, names: &str) -> io::Result<ExitStatus> {
        // The guardian is reaped last, so that no other process can get its number before.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ended = waitid(WaitId::Pid(Pid::from_child(&self.guardian)), options);
        self.end_all(names).await;
        self.guardian.wait()
    }

    /// Reaps a guardian that has no more to do. This process must do it, because the reaper of
    /// orphans might never do so: the first process of a container seldom does. Then each command
    /// would leave a zombie in the container.
    pub(crate) fn bury_guardian(&mut self) {
        // A guardian that was stopped meanwhile would never end by itself.
        if self.guardian.kill().is_ok() {
            let _ended = self.guardian.wait();
        }
    }

    /// Kills these processes until none is left. Prints once, with the names of the locks, that a
    /// process does not end.
    async fn end_all(&self, names: &str) {
        let guardian = Pid::from_child(&self.guardian);
        let tree = Tree { root: self.root, guardian, group: self.group };
        let mut tell_at = Some(CLOCK.now() + AFTER_KILL);
        loop {
            let left = tree.scan();
            if left.is_nobody {
                return;
            }
            tree.kill();
            if tell_at.is_some_and(|at| CLOCK.now() >= at)
                && let Some(process) = left.example()
            {
                tell_at = None;
                process.report(names);
            }
            sleep(if tell_at.is_some() { LOOK_INTERVAL } else { RARE_LOOK_INTERVAL }).await;
        }
    }
}
