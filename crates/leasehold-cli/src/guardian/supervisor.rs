//! The guardian's one loop: orders, ended children, and time.

use std::io;
use std::time::Duration;

use leasehold::{Clock as _, Instant, SystemClock};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getppid, kill_process, kill_process_group,
    test_kill_process_group, wait,
};
use tokio::net::unix::OwnedWriteHalf;
use tokio::signal::unix::{self, SignalKind};

use super::wire::{self, Begin, How, Incoming, Order, Report, Why};
use crate::args::OnLost;
use crate::report::Voice;
use crate::signals::Signals;

/// How often it is looked whether the group is empty once the command has ended: 20 ms. Nothing
/// tells when a process ends that is nobody's child here.
const GLANCE: Duration = Duration::from_millis(20);

/// How long the end of a killed group is awaited: 2 s. A process that hangs in the kernel (a dead
/// network disk) does not end, and waiting for it for ever helps nobody.
const AFTER_KILL: Duration = Duration::from_secs(2);

const CLOCK: SystemClock = SystemClock::new();

/// What the guardian listens to.
#[derive(Debug)]
pub(super) struct Watched {
    orders: Incoming,
    children: unix::Signal,
    /// Signals to the guardian itself are dropped: leasehold gets its own and passes them on, and
    /// a `kill` of everything called leasehold must not leave the command alone.
    dropped: Signals,
}

impl Watched {
    pub(super) fn new(orders: Incoming) -> io::Result<Self> {
        let children = unix::signal(SignalKind::child())?;
        Ok(Self { orders, children, dropped: Signals::catch_all()? })
    }
}

/// How far the end of the command has come.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It runs, and the lease is valid.
    Running,
    /// It has ended by itself; what it left in its group may finish until then. A `tee` that a
    /// shell script writes through ends a little after the script.
    Draining { until: Instant },
    /// The group was sent TERM.
    Stopping { kill_at: Instant },
    /// The group was sent KILL.
    Killed { until: Instant },
}

/// Supervises one command and its process group.
#[derive(Debug)]
pub(super) struct Supervisor {
    /// The command; its group has the same number.
    leader: Pid,
    on_lost: OnLost,
    kill_after: Duration,
    is_nested: bool,
    deadline: Instant,
    phase: Phase,
    how: Option<How>,
    reports: OwnedWriteHalf,
    /// Leasehold has died: nobody reads reports or sends orders.
    alone: bool,
    voice: Voice,
}

impl Supervisor {
    /// Tells leasehold which group it is, and takes it on.
    pub(super) fn new(leader: Pid, begin: &Begin, reports: OwnedWriteHalf) -> Self {
        let supervisor = Self {
            leader,
            on_lost: begin.on_lost,
            kill_after: Duration::from_micros(begin.kill_after_us),
            is_nested: begin.is_nested,
            deadline: instant(begin.until_us),
            phase: Phase::Running,
            how: None,
            reports,
            alone: false,
            voice: Voice { quiet: begin.quiet, verbose: false },
        };
        supervisor.report(&Report::Started { group: leader.as_raw_pid() });
        supervisor
    }

    /// Supervises until the command has ended and nothing of its group is left.
    pub(super) async fn run(mut self, mut watched: Watched) {
        while !self.is_over() {
            tokio::select! {
                biased;
                _ = watched.children.recv() => self.reap(),
                order = wire::receive(&mut watched.orders), if !self.alone => {
                    self.obey(order);
                }
                _ = watched.dropped.next() => {}
                () = sleep_until(self.wake_at()) => {}
            }
            self.look_at_the_clock(CLOCK.now());
        }
        if let Some(how) = self.how {
            self.report(&Report::Ended { how });
        }
        // Last, because whoever should read this may not, and nothing may wait for him before.
        if self.alone && self.on_lost != OnLost::Ignore {
            self.voice.say("leasehold itself was killed, so its command was ended");
        }
    }

    /// A killed group that does not end is given up.
    fn is_over(&self) -> bool {
        let given_up = match self.phase {
            Phase::Killed { until } => CLOCK.now() >= until,
            Phase::Running | Phase::Draining { .. } | Phase::Stopping { .. } => false,
        };
        given_up || (self.how.is_some() && test_kill_process_group(self.leader).is_err())
    }

    /// When the command must be told to stop, unless a renewal moves the deadline.
    fn stop_at(&self) -> Option<Instant> {
        match self.on_lost {
            OnLost::Ignore => None,
            OnLost::Kill => Some(self.deadline),
            OnLost::Term => Some(self.deadline.saturating_sub(self.kill_after)),
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let next = match self.phase {
            Phase::Running => self.stop_at(),
            Phase::Draining { until } | Phase::Killed { until } => Some(until),
            Phase::Stopping { kill_at } => Some(kill_at),
        };
        match self.how {
            None => next,
            Some(_) => Some(CLOCK.now() + GLANCE),
        }
    }

    fn look_at_the_clock(&mut self, now: Instant) {
        match self.phase {
            Phase::Running | Phase::Draining { .. }
                if self.stop_at().is_some_and(|at| now >= at) =>
            {
                self.stop(Why::Overdue);
            }
            Phase::Running if self.how.is_some() => {
                self.phase = Phase::Draining { until: now + self.kill_after };
            }
            Phase::Draining { until } if now >= until => self.stop(Why::LeftBehind),
            Phase::Stopping { kill_at } if now >= kill_at => self.kill(),
            Phase::Running
            | Phase::Draining { .. }
            | Phase::Stopping { .. }
            | Phase::Killed { .. } => {}
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Deadline { until_us }) => {
                self.deadline = self.deadline.max(instant(until_us));
            }
            Some(Order::Lost) => self.stop_because(Why::Lost),
            Some(Order::Signal { number }) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.signal(signal);
                }
            }
            Some(Order::Begin(_)) => {} // it has begun
            None => {
                self.alone = true;
                self.stop_because(Why::Died);
            }
        }
    }

    fn stop_because(&mut self, why: Why) {
        match (self.phase, self.on_lost) {
            (Phase::Running | Phase::Draining { .. }, OnLost::Kill | OnLost::Term) => {
                self.stop(why);
            }
            (Phase::Stopping { .. } | Phase::Killed { .. }, _) | (_, OnLost::Ignore) => {}
        }
    }

    /// Tells the group to end. There is no way back: a renewal that comes now is too late.
    fn stop(&mut self, why: Why) {
        // The guardian of an outer lease kills a leasehold only after its TERM was passed on and
        // that lease's own grace is over, so there is none left to give here.
        let had_its_grace = why == Why::Died && self.is_nested;
        if had_its_grace || (self.on_lost == OnLost::Kill && why != Why::LeftBehind) {
            self.kill();
        } else {
            let kill_at = CLOCK.now() + self.kill_after;
            let kill_at = match self.on_lost {
                OnLost::Ignore => kill_at,
                OnLost::Kill | OnLost::Term => kill_at.min(self.deadline),
            };
            self.phase = Phase::Stopping { kill_at };
            self.signal(Signal::TERM);
            // A stopped process acts on TERM only when it runs again.
            self.signal(Signal::CONT);
        }
        self.report(&Report::Ending { why });
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.phase = Phase::Killed { until: CLOCK.now() + AFTER_KILL };
    }

    fn signal(&self, signal: Signal) {
        // An empty group needs no signal, and a process of another user cannot be sent one.
        let _nobody = kill_process_group(self.leader, signal);
    }

    fn reap(&mut self) {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        while let Ok(Some((pid, status))) = wait(options) {
            if pid == self.leader {
                self.changed(status);
            }
        }
    }

    fn changed(&mut self, status: WaitStatus) {
        if let Some(signal) = status.stopping_signal() {
            self.report(&Report::Stopped { signal });
        } else if status.continued() {
            // Leasehold may have stopped itself along with the command.
            if let (false, Some(leasehold)) = (self.alone, getppid()) {
                let _died = kill_process(leasehold, Signal::CONT);
            }
        } else if let Some(signal) = status.terminating_signal() {
            self.how = Some(How::Signaled(signal));
        } else if let Some(code) = status.exit_status() {
            self.how = Some(How::Exited(u8::try_from(code).unwrap_or(u8::MAX)));
        }
    }

    fn report(&self, report: &Report) {
        // If nobody reads it, the end of the orders says so.
        let _dead = wire::send_or_drop(&self.reports, report);
    }
}

fn instant(us: u64) -> Instant {
    Instant::from_origin(Duration::from_micros(us))
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => CLOCK.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
