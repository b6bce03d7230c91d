//! The loop of the guardian: orders, ended children, and time.

use std::fs;
use std::io;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::time::{Clock as _, Instant};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, kill_process_group, wait,
};
use tokio::net::unix::OwnedWriteHalf;
use tokio::signal::unix::{self, SignalKind};
use tokio::task::yield_now;

use super::descendants::{Descendants, Tree};
use super::protocol::{self, Begin, CommandEnd, EndReason, Incoming, Order, Report};
use super::timing::{
    AFTER_KILL, CLOCK, LOOK_INTERVAL, RARE_LOOK_INTERVAL, head_start, sleep_until,
};
use crate::args::OnLost;
use crate::report::Verbosity;
use crate::signals::{Signals, numbered};

/// The sources that the guardian listens to.
#[derive(Debug)]
pub(super) struct Watched {
    orders: Incoming,
    children: unix::Signal,
    /// Signals to the guardian itself, which are dropped. leasehold gets the same signals and
    /// passes them on, and a `kill` of everything called leasehold must not leave the command
    /// without a guardian.
    dropped: Signals,
}

impl Watched {
    pub(super) fn new(orders: Incoming) -> io::Result<Self> {
        let children = unix::signal(SignalKind::child())?;
        Ok(Self { orders, children, dropped: Signals::catch_all()? })
    }
}

/// How long the guardian waits for processes that a command leaves behind before it reports them:
/// 200 ms. A `tee` that a shell script writes through ends a little after the script.
const SILENT_DRAINING: Duration = Duration::from_millis(200);

/// The phases of the command's end.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The command runs, and the lease is valid.
    Running,
    /// The command has ended by itself. The processes that it left may go on until `until`, and are
    /// reported at `tell_at`.
    Draining { until: Instant, tell_at: Option<Instant> },
    /// All processes were sent TERM, or the signal that the user chose.
    Stopping { kill_at: Instant },
    /// All processes are sent KILL again and again, because a process that was forked meanwhile is
    /// found only by another search. At `tell_at` the guardian reports a process that has not ended
    /// to leasehold.
    Killed { tell_at: Option<Instant> },
}

/// Supervises one command and the processes that it starts.
#[derive(Debug)]
pub(super) struct Supervisor {
    /// The command's process; its group has the same number.
    leader: Pid,
    tree: Tree,
    /// No child is left, not even one in a separate session.
    is_childless: bool,
    /// The processes that were asked to end. They can be killed without a search.
    told: Option<Descendants>,
    /// How the command is ended.
    task: Begin,
    deadline: Instant,
    /// When the limit of --max-hold is over.
    over_at: Option<Instant>,
    phase: Phase,
    how: Option<CommandEnd>,
    /// Whether leasehold has continued the command since the command stopped. If so, leasehold
    /// itself runs.
    is_continued: bool,
    reports: OwnedWriteHalf,
    /// Leasehold has died: nobody reads reports or sends orders.
    alone: bool,
}

impl Supervisor {
    /// Takes on a command, and tells leasehold its process group.
    pub(super) fn new(leader: Pid, task: Begin, reports: OwnedWriteHalf) -> Self {
        let supervisor = Self {
            leader,
            tree: Tree { root: getpid(), guardian: getpid(), group: Some(leader) },
            is_childless: false,
            told: None,
            deadline: Instant::from_origin(task.until),
            over_at: task.max_hold.map(|span| CLOCK.now() + span),
            task,
            phase: Phase::Running,
            how: None,
            is_continued: false,
            reports,
            alone: false,
        };
        supervisor.report(&Report::Started { group: leader.as_raw_pid() });
        supervisor
    }

    /// Supervises until the command and all processes that it started have ended.
    pub(super) async fn run(mut self, mut watched: Watched) {
        while !self.is_over() {
            tokio::select! {
                biased;
                _ = watched.children.recv() => {}
                order = protocol::receive(&mut watched.orders), if !self.alone => {
                    self.obey(order);
                }
                _ = watched.dropped.next() => {}
                () = sleep_until(self.wake_at()) => {}
            }
            self.obey_all(&mut watched.orders).await;
            self.reap();
            self.check_clock(CLOCK.now());
        }
        // Processes that have ended since the last round must not keep the group's number.
        self.reap();
        self.how.into_iter().for_each(|how| self.report(&Report::Ended { how }));
        // This message is printed last: if nobody reads stderr, it takes a moment, and must not
        // delay anything else.
        if self.alone && self.task.on_lost != OnLost::Ignore {
            Verbosity::default().error("leasehold itself was killed, so its command was ended");
        }
    }

    fn is_over(&self) -> bool {
        self.how.is_some() && (self.is_childless || self.tree.scan().is_nobody)
    }

    /// When the command must be asked to end, unless a renewal moves the deadline.
    fn stop_at(&self) -> Option<Instant> {
        match self.task.on_lost {
            OnLost::Ignore => None,
            OnLost::Kill => Some(self.kill_by()),
            OnLost::Term => Some(self.kill_by().saturating_sub(self.task.kill_after)),
        }
    }

    fn kill_by(&self) -> Instant {
        self.deadline.saturating_sub(head_start(self.task.kill_after))
    }

    fn wake_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => self.stop_at().into_iter().chain(self.over_at).min(),
            Phase::Stopping { kill_at } if self.how.is_none() => Some(kill_at),
            Phase::Killed { tell_at: None } => Some(CLOCK.now() + RARE_LOOK_INTERVAL),
            Phase::Draining { .. } | Phase::Stopping { .. } | Phase::Killed { .. } => {
                Some(CLOCK.now() + LOOK_INTERVAL)
            }
        }
    }

    fn check_clock(&mut self, now: Instant) {
        match self.phase {
            Phase::Running | Phase::Draining { .. }
                if self.stop_at().is_some_and(|at| now >= at) =>
            {
                self.stop_because(EndReason::Overdue);
            }
            Phase::Running if self.how.is_some() => {
                let until = now + self.task.kill_after;
                let until = self.over_at.map_or(until, |over_at| until.min(over_at));
                self.phase = Phase::Draining { until, tell_at: Some(now + SILENT_DRAINING) };
            }
            Phase::Running if self.over_at.is_some_and(|at| now >= at) => {
                self.stop(EndReason::Over);
            }
            Phase::Draining { until, .. } if now >= until => self.stop(EndReason::LeftBehind),
            Phase::Draining { until, tell_at: Some(at) } if now >= at => {
                self.report(&Report::LeftBehind { wait: until.saturating_since(now) });
                self.phase = Phase::Draining { until, tell_at: None };
            }
            Phase::Stopping { kill_at } if now >= kill_at => self.kill(),
            Phase::Killed { tell_at } => {
                self.tree.kill();
                if tell_at.is_some_and(|at| now >= at) {
                    self.tell_who_remains();
                }
            }
            Phase::Running | Phase::Draining { .. } | Phase::Stopping { .. } => {}
        }
    }

    fn tell_who_remains(&mut self) {
        let Some(process) = self.tree.scan().example() else { return };
        self.phase = Phase::Killed { tell_at: None };
        match self.alone {
            true => Verbosity::default().error(process.sentence()),
            false => self.report(&Report::Remains { process }),
        }
    }

    /// Obeys all orders that have arrived. If this process was stopped meanwhile, the last of them
    /// has the deadline that counts.
    async fn obey_all(&mut self, orders: &mut Incoming) {
        // This makes the runtime look at the socket: a timer alone would wake it without that.
        yield_now().await;
        while !self.alone
            && let Some(order) = protocol::receive(orders).now_or_never()
        {
            self.obey(order);
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Deadline { until }) => {
                self.deadline = self.deadline.max(Instant::from_origin(until));
            }
            Some(Order::Lost) => self.stop_because(EndReason::Lost),
            Some(Order::Signal { number }) => match numbered(number) {
                Some(Signal::TERM) if self.is_undisturbed() => self.stop(EndReason::Asked),
                Some(signal) => {
                    self.is_continued |= signal == Signal::CONT;
                    self.signal_group(signal);
                }
                None => {}
            },
            None => {
                self.alone = true;
                self.stop_because(EndReason::Died);
            }
        }
    }

    fn stop_because(&mut self, why: EndReason) {
        self.remove_ready_file();
        if self.is_undisturbed() && self.task.on_lost != OnLost::Ignore {
            self.stop(why);
        }
    }

    /// Whether no process was asked to end yet.
    fn is_undisturbed(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Draining { .. })
    }

    /// Asks all processes to end, or kills them. A renewal that comes now is too late.
    fn stop(&mut self, why: EndReason) {
        // If an outer guardian has killed this lease's leasehold, it had sent TERM before. The
        // outer lease's time between TERM and KILL is over, so no such time is left here.
        let had_its_grace = why == EndReason::Died && self.task.is_nested;
        let is_lost = matches!(why, EndReason::Died | EndReason::Lost | EndReason::Overdue);
        if had_its_grace || (self.task.on_lost == OnLost::Kill && is_lost) {
            self.kill();
        } else {
            let kill_at = CLOCK.now() + self.task.kill_after;
            let kill_at = match self.task.on_lost {
                OnLost::Ignore => kill_at,
                OnLost::Kill | OnLost::Term => kill_at.min(self.kill_by()),
            };
            self.phase = Phase::Stopping { kill_at };
            let all = self.tree.scan();
            all.signal(numbered(self.task.signal).unwrap_or(Signal::TERM));
            // A stopped process handles the signal only when it runs again.
            all.signal(Signal::CONT);
            self.told = Some(all);
        }
        self.report(&Report::Ending { why });
    }

    /// leasehold may be dead or stopped, and then its file says what is no longer true.
    fn remove_ready_file(&mut self) {
        // leasehold itself may have removed the file.
        let _gone = self.task.ready_file.take().map(fs::remove_file);
    }

    fn kill(&mut self) {
        self.signal_group(Signal::KILL);
        self.told.take().into_iter().for_each(|told| told.signal(Signal::KILL));
        self.tree.kill();
        self.phase = Phase::Killed { tell_at: Some(CLOCK.now() + AFTER_KILL) };
    }

    /// Sends a signal to the command's group. Until the command is reaped, the group's number is
    /// enough, because no other group can have it.
    fn signal_group(&self, signal: Signal) {
        match self.how {
            // The processes may belong to another user.
            None => drop(kill_process_group(self.leader, signal)),
            Some(_) => self.tree.scan().signal_group(signal),
        }
    }

    fn reap(&mut self) {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        loop {
            match wait(options) {
                Ok(Some((pid, status))) if pid == self.leader => self.changed(status),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => {
                    // On other systems, orphans are not children of the guardian.
                    self.is_childless = cfg!(target_os = "linux") && error == Errno::CHILD;
                    return;
                }
            }
        }
    }

    fn changed(&mut self, status: WaitStatus) {
        if let Some(signal) = status.stopping_signal() {
            self.is_continued = false;
            self.report(&Report::Stopped { signal });
        } else if status.continued() {
            // Leasehold may have stopped itself along with the command. If another process
            // continued the command, leasehold must go on, too. If leasehold itself continued the
            // command, it gets no CONT: it would pass the CONT on, and a Ctrl-Z in between would
            // not stop the command.
            let is_needed = !self.alone && !self.is_continued;
            if let (true, Some(leasehold)) = (is_needed, getppid()) {
                let _died = kill_process(leasehold, Signal::CONT);
            }
        } else if let Some(signal) = status.terminating_signal() {
            self.how = Some(CommandEnd::Signaled(signal));
        } else if let Some(code) = status.exit_status() {
            self.how = Some(CommandEnd::Exited(u8::try_from(code).unwrap_or(u8::MAX)));
        }
    }

    fn report(&self, report: &Report) {
        // If leasehold is dead, its orders end, and that is noticed elsewhere.
        let _dead = protocol::send_or_drop(&self.reports, report);
    }
}
