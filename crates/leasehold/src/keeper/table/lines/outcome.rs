//! What comes out of the lines: how a call begins, what is left of a place, and what goes to whom.

use std::sync::Arc;

use leasehold_core::{HolderId, Instant};
use tokio::sync::oneshot;

use crate::keeper::lease::LeaseState;
use crate::keeper::table::cleanup::Cleanup;
use crate::keeper::table::waiters::{Turn, Waiter};
use crate::keeper::ticket::Ticket;

/// How a call begins.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It asks the store, after `release` or together with it.
    Asks { ticket: Option<Ticket>, release: Option<Box<Cleanup>> },
    /// It is behind others of its client, so many of them, the first of whom holds `own` or asks.
    Behind { ticket: Ticket, ahead: u32, own: Option<HolderId> },
    /// It would not wait, and somebody of its client holds or awaits the name.
    Busy,
    /// What somebody of its client has just let go of is its own.
    TakenOver { state: Arc<LeaseState>, due: Instant },
}

/// What is left of a place that a caller gives up.
#[derive(Debug)]
pub(crate) enum Left<L> {
    /// Its attempt is nobody else's: it is cancelled, if the store may know it.
    Own(Box<Waiter<L>>),
    /// The line goes on without it.
    PassedOn(Wakeup<L>),
    /// None: it has had its turn, or was skipped.
    HadTurn,
}

/// A lease in new hands, and where it is sent.
#[derive(Debug)]
pub(crate) struct Passed<L> {
    pub(crate) state: Arc<LeaseState>,
    pub(crate) turn: oneshot::Sender<Turn<L>>,
    /// When the keeper has to look.
    pub(crate) due: Instant,
}

/// What is sent to a caller, and dropped, once no lock is held.
#[derive(Debug)]
#[must_use = "somebody waits for it"]
pub(crate) struct Wakeup<L> {
    pub(super) turn: Option<(oneshot::Sender<Turn<L>>, Turn<L>)>,
    /// Where nothing is sent any more: dropping it may wake its caller.
    pub(super) replaced: Option<oneshot::Sender<Turn<L>>>,
}

impl<L> Wakeup<L> {
    pub(crate) const NONE: Self = Self { turn: None, replaced: None };

    /// Sends it. If the caller has gone in this moment, it leaves the line itself.
    pub(crate) fn deliver(self) {
        drop(self.replaced);
        if let Some((to, turn)) = self.turn {
            let _ = to.send(turn);
        }
    }
}
