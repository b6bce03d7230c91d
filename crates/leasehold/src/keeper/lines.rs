//! Callers come and go: they stand in line for a name, ask the store, or take over what was let go
//! of.

use std::sync::Arc;

use leasehold_core::{Error, FencingToken, HolderId, Instant, LockName, Result, StoreError};

use super::cleanups::PendingRelease;
use super::life::{Held, Keeper, Waiter};
use super::polls::fail;
use super::table;
use super::ticket::Ticket;

/// How a call begins.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It asks the store, after the release or together with it.
    Asks { ticket: Option<Ticket>, release: Option<PendingRelease> },
    /// It stands behind so many callers of its own client, which may have a lease.
    Behind { ticket: Ticket, ahead: u32, own: Option<FencingToken> },
    /// It would not wait, and somebody of its client holds or awaits the name.
    Busy,
    /// It has what somebody of its client has let go of in this moment.
    TakenOver(Held),
}

/// What is left of the place of a caller that gives it up.
#[derive(Debug)]
pub(crate) enum Left {
    /// Its attempt, which nobody else looks after.
    Own(Box<Waiter>),
    /// The line has it, or there is none.
    PassedOn,
    /// Its turn is on its way to it, or somebody else has taken its place.
    HadTurn,
}

impl Keeper {
    /// Makes an acquire known that is about to be sent, if it `waits`, or that stands in line, and
    /// sees to it that something drives this keeper and opens its inbox.
    pub(crate) fn begin(
        self: &Arc<Self>,
        waiter: Waiter,
        waits: bool,
        now: Instant,
    ) -> Result<Begun> {
        let (name, id) = (waiter.name.clone(), waiter.id);
        let (begun, was_running) = {
            let mut table = self.table();
            if table.closed {
                return Err(Error::Closed);
            }
            if waits && !std::mem::replace(&mut table.wants_inbox, true) {
                self.wake.notify_one();
            }
            let begun = match table.begin(waiter, waits, now) {
                table::Begun::Asks { ticket, release } => {
                    let release = release.map(|cleanup| PendingRelease::new(self, cleanup));
                    Begun::Asks { ticket, release }
                }
                table::Begun::Behind { ticket, ahead, own } => {
                    let own = own.and_then(|id| table.leases.get(id)).map(|own| own.token());
                    Begun::Behind { ticket, ahead, own }
                }
                table::Begun::Busy => Begun::Busy,
                table::Begun::TakenOver { state, due } => {
                    self.wake_by(&mut table, due);
                    Begun::TakenOver(Held { keeper: Arc::clone(self), state })
                }
            };
            self.wake_for_lines(&mut table);
            (begun, std::mem::replace(&mut table.running, true))
        };
        if !was_running {
            let ticket = match &begun {
                Begun::Asks { ticket, .. } => *ticket,
                Begun::Behind { ticket, .. } => Some(*ticket),
                Begun::Busy | Begun::TakenOver(_) => None,
            };
            self.start().inspect_err(|_| drop(self.leave(&name, ticket, id)))?;
        }
        Ok(begun)
    }

    /// A caller gives up its place.
    pub(crate) fn leave(&self, name: &LockName, ticket: Option<Ticket>, id: HolderId) -> Left {
        let now = self.store.now();
        let left = {
            let mut table = self.table();
            let left = table.leave(name, ticket, id, now);
            self.wake_for_lines(&mut table);
            left
        };
        match left {
            table::Left::Own(waiter) => Left::Own(waiter),
            table::Left::PassedOn(wakeup) => {
                wakeup.deliver();
                Left::PassedOn
            }
            table::Left::HadTurn => Left::HadTurn,
        }
    }

    /// A caller gives up its attempt and keeps its place in line; false if the attempt is not its
    /// own any more.
    pub(crate) fn withdraw(&self, name: &LockName, ticket: Option<Ticket>, id: HolderId) -> bool {
        let mut table = self.table();
        let is_own = table.withdraw(name, ticket, id).is_some();
        self.wake_for_lines(&mut table);
        is_own
    }

    /// Whether a caller still asks for its line, with the release of what that had before, if
    /// nobody has sent it yet.
    pub(crate) fn shows_life(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
    ) -> Option<Option<PendingRelease>> {
        let now = self.store.now();
        let release = self.table().lines.show_life(name, ticket, now)?;
        Some(release.map(|cleanup| PendingRelease::new(self, cleanup)))
    }

    /// The answer to the first in line concerns all of it.
    pub(crate) fn fail_line(&self, name: &LockName, ticket: Option<Ticket>, error: &StoreError) {
        let behind = self.table().lines.take_behind(name, ticket);
        behind.into_iter().for_each(|waiter| fail(waiter, error));
    }

    /// A lease is not what its line was granted any more: the next in line asks for another one.
    pub(crate) fn leave_line(&self, held: &Held) {
        let now = self.store.now();
        let wakeup = {
            let mut table = self.table();
            let wakeup = table.leave_line(&held.state, now);
            self.wake_for_lines(&mut table);
            wakeup
        };
        wakeup.deliver();
    }
}
