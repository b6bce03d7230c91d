//! One line: who asks or holds for it, and who is behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::renewal::Renewing;
use leasehold_core::{HolderId, Instant, LeaseOptions, Mode, Renewal};
use tokio::sync::oneshot;

use super::outcome::Wakeup;
use crate::keeper::lease::LeaseState;
use crate::keeper::table::cleanup::Cleanup;
use crate::keeper::table::waiters::{Ask, Turn, Waiter, Waiters};
use crate::keeper::ticket::Ticket;

/// It exists while somebody of it holds or asks.
#[derive(Debug)]
pub(super) struct Line<L> {
    pub(super) terms: Terms,
    pub(super) head: Head,
    pub(super) callers: BTreeMap<Ticket, Waiter<L>>,
    pub(super) let_go: Option<KeptForNext>,
    pub(super) is_listed: bool,
    pub(super) is_watched: bool,
}

/// What all of a line ask for. Whoever wants anything else asks the store himself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    ttl: Duration,
    min_validity: Option<Duration>,
}

/// What a line has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head {
    /// Its first asks, with an attempt that is a waiter of this client, or draws one.
    Asking { front: Ticket, attempt: Option<HolderId>, seen: Instant },
    /// A lease, in somebody's hands.
    Held { id: HolderId, slice_until: Instant },
    /// A lease that was dropped, and whose release nobody has sent yet.
    LetGo,
}

/// A lease that was dropped with nobody in line.
#[derive(Debug)]
pub(super) struct KeptForNext {
    pub(super) state: Arc<LeaseState>,
    pub(super) renewing: Renewing,
    pub(super) slice_until: Instant,
    pub(super) cleanup: Box<Cleanup>,
}

impl Terms {
    /// Those of a call that may stand in line: what limits how long something is held or
    /// remembered, or leaves renewals to its holder, is about one grant.
    pub(super) fn of(mode: Mode, options: &LeaseOptions) -> Option<Self> {
        let LeaseOptions { ttl, renewal, min_validity, max_hold, min_hold, remember, .. } =
            *options;
        let joins = mode == Mode::Exclusive
            && renewal == Renewal::Auto
            && max_hold.is_none()
            && min_hold.is_none()
            && remember.is_none();
        joins.then_some(Self { ttl, min_validity })
    }
}

impl<L> Line<L> {
    pub(super) fn new(terms: Terms, head: Head) -> Self {
        let callers = BTreeMap::new();
        Self { terms, head, callers, let_go: None, is_listed: false, is_watched: false }
    }

    /// The first of those behind asks from now on; `None` if there is nobody. What was asked for
    /// goes on: the same attempt, at the same place.
    pub(super) fn advance(
        &mut self,
        waiters: &mut Waiters<L>,
        now: Instant,
        yields: bool,
    ) -> Option<Wakeup<L>> {
        let (ticket, mut next) = self.callers.pop_first()?;
        let attempt = match self.head {
            Head::Asking { attempt, .. } => attempt,
            Head::Held { .. } | Head::LetGo => None,
        };
        let known = attempt.and_then(|id| waiters.get_mut(id));
        let is_known = known.is_some();
        let id = attempt.filter(|_| is_known).unwrap_or(next.id);
        self.head = Head::Asking { front: ticket, attempt: Some(id), seen: now };
        let Some(waiter) = known else {
            let (sender, turn) = oneshot::channel();
            let ask = Ask { id, nonce: next.nonce, is_known, yields, turn };
            let to = std::mem::replace(&mut next.turn, sender);
            waiters.add(next);
            return Some(Wakeup { turn: Some((to, Turn::Ask(ask))), replaced: None });
        };
        waiter.ticket = Some(ticket);
        waiter.options = next.options;
        if waiter.is_queued() {
            // It has only to wait, as it does.
            let replaced = Some(std::mem::replace(&mut waiter.turn, next.turn));
            return Some(Wakeup { turn: None, replaced });
        }
        let (sender, turn) = oneshot::channel();
        waiter.unanswered = true;
        let replaced = Some(std::mem::replace(&mut waiter.turn, sender));
        let ask = Ask { id, nonce: waiter.nonce, is_known, yields, turn };
        Some(Wakeup { turn: Some((next.turn, Turn::Ask(ask))), replaced })
    }

    /// Since when its first asks while others are behind, unless it is the store's turn to speak.
    pub(super) fn asks_since(&self, waiters: &Waiters<L>) -> Option<Instant> {
        let Head::Asking { attempt, seen, .. } = self.head else { return None };
        let waits = match attempt {
            None => false,
            Some(id) => waiters.get(id).is_none_or(Waiter::is_queued),
        };
        (!self.callers.is_empty() && !waits).then_some(seen)
    }
}
