//! Waiters are made known, are polled for, and get their turn.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{
    Action, BoxFuture, FencingToken, HolderId, Instant, LockName, Mode, Place, Renewal, Reply,
    Result, StoreError,
};

use super::answers::unusable_reply;
use super::delivery::Delivery;
use super::jobs::Done;
use super::lease::{Granted, LeaseState};
use super::life::{Keeper, Table, Turn, Waiter};
use super::table::Poll;
use crate::event::Event;
use crate::store::clocked::TimedAnswer;

/// A grant that a message announces.
#[derive(Clone, Copy)]
pub(super) struct Announcement {
    pub(super) id: HolderId,
    pub(super) nonce: u64,
    pub(super) token: FencingToken,
    pub(super) granted_us: u64,
    pub(super) deadline_us: u64,
}

/// What an announced grant means here.
enum Meaning {
    /// Of a waiter that enters at once, and until when its lease may be relied on.
    Enter(Box<Waiter>, Instant),
    /// Of an attempt on this name that has ended.
    GrantedAgain(LockName),
    /// Of a lease that is held: a reader has become the writer.
    Held(Arc<LeaseState>),
    /// Nothing, or the store is asked first.
    Nothing,
}

impl Keeper {
    // ---- waiters

    /// Notes the place of a waiter that has joined the store's queue.
    pub(crate) fn joined(&self, id: HolderId, place: Place, unanswered: bool) {
        let now = self.store.now();
        let mut table = self.table();
        if let Some(at) = table.waiters.joined(id, place, unanswered, now) {
            self.wake_by(&mut table, at);
        }
    }

    /// Why the last poll for the waiters of a name failed, if it did.
    pub(crate) fn poll_failure(&self, name: &LockName) -> Option<StoreError> {
        self.table().waiters.failure(name)
    }

    /// The lease of this client without whose end nobody of it is granted `mode`, be it asked for
    /// in vain or queued.
    pub(crate) fn own_in_the_way(
        &self,
        name: &LockName,
        mode: Mode,
        is_queued: bool,
    ) -> Option<FencingToken> {
        self.table().leases.own_in_the_way(name, mode, is_queued)
    }

    // ---- polls

    pub(super) fn poll(self: &Arc<Self>, Poll { name, id, ttl }: Poll) -> BoxFuture<'static, Done> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let result = keeper.store.apply(&name, Action::Poll { id, ttl }).await;
            Done::Polled { name, id, result }
        })
    }

    pub(super) fn polled(
        self: &Arc<Self>,
        name: &LockName,
        id: HolderId,
        result: Result<TimedAnswer, StoreError>,
    ) {
        self.poll_answered(name, id, result);
        self.table().waiters.answered(id);
    }

    fn poll_answered(
        self: &Arc<Self>,
        name: &LockName,
        id: HolderId,
        result: Result<TimedAnswer, StoreError>,
    ) {
        let now = self.store.now();
        let timed = match result {
            Ok(timed) => timed,
            Err(cause) if cause.kind().is_outage() => {
                let lasting = self.table().waiters.poll_later(name, &cause, now);
                if let (Some(lasting), Some((mode, label))) = (lasting, self.first_waiter(name)) {
                    let (label, cause) = (label.as_deref(), &cause);
                    self.observe(&Event::Delayed { name, mode, label, cause, lasting });
                }
                return;
            }
            Err(error) => return self.fail_all(name, &error),
        };
        match timed.answer.reply {
            Reply::Granted(grant) => {
                let waiter = {
                    let mut table = self.table();
                    let waiter = table.waiters.take(id);
                    table.waiters.poll_next(name, now);
                    waiter
                };
                if let Some(waiter) = waiter {
                    let until = self.store.valid_until(&timed, grant, waiter.options.ttl);
                    self.enter(waiter, grant.token, until, true, now);
                }
            }
            Reply::Queued(place) => {
                let more = timed.answer.more;
                let goes_on = self.table().waiters.still_waiting(name, place, more, now);
                if let (true, Some((mode, label))) = (goes_on, self.first_waiter(name)) {
                    let (label, ahead) = (label.as_deref(), Some(place.ahead));
                    self.observe(&Event::Waiting { name, mode, label, ahead });
                }
            }
            Reply::Gone => {
                let waiter = {
                    let mut table = self.table();
                    let waiter = table.waiters.take(id);
                    table.waiters.recheck_all(name, now);
                    table.attempt_is_gone(name, id, now);
                    waiter
                };
                if let Some(waiter) = waiter {
                    if waiter.unanswered {
                        // A late copy must not bring it back.
                        let cancel = Action::Cancel { id, unanswered: true };
                        self.clean(name.clone(), cancel, waiter.options.ttl);
                    }
                    // The caller may have given up: then there is nobody to tell.
                    let _ = waiter.turn.send(Turn::Gone);
                }
            }
            other => self.fail_all(name, &unusable_reply(name, &other)),
        }
    }

    /// What the first of those that wait for a name asks for, and its label.
    fn first_waiter(&self, name: &LockName) -> Option<(Mode, Option<String>)> {
        let table = self.table();
        let first = table.waiters.first_of(name)?;
        Some((first.mode, first.options.label.clone()))
    }

    /// Nobody of this client waits for a name any more, nor keeps a place in the store's queue.
    fn fail_all(self: &Arc<Self>, name: &LockName, error: &StoreError) {
        let now = self.store.now();
        let (waiters, behind) = {
            let mut table = self.table();
            let waiters = table.waiters.take_all_of(name);
            let behind: Vec<_> = waiters
                .iter()
                .flat_map(|waiter| {
                    table.attempt_is_gone(name, waiter.id, now);
                    table.lines.take_behind(name, waiter.ticket)
                })
                .collect();
            (waiters, behind)
        };
        for waiter in &waiters {
            self.cancel(waiter);
        }
        waiters.into_iter().chain(behind).for_each(|waiter| fail(waiter, error));
    }

    // ---- grants

    /// A message says that an attempt was granted. Enters at once where that is sound, else the
    /// store is asked first.
    pub(super) fn announced(self: &Arc<Self>, grant: Announcement) {
        let now = self.store.now();
        let meaning = self.meaning(&mut self.table(), grant, now);
        match meaning {
            Meaning::Enter(waiter, until) => self.enter(*waiter, grant.token, until, false, now),
            Meaning::GrantedAgain(name) => {
                let (id, cooldown) = (grant.id, Duration::ZERO);
                let release = Action::Release { id, cooldown, unanswered: false };
                self.clean(name, release, CLAIM_WINDOW);
            }
            Meaning::Held(lease) => lease.upgraded.notify_one(),
            Meaning::Nothing => {}
        }
    }

    fn meaning(&self, table: &mut Table, grant: Announcement, now: Instant) -> Meaning {
        let Announcement { id, nonce, token, granted_us, deadline_us } = grant;
        if let Some(lease) = table.leases.get(id) {
            return Meaning::Held(Arc::clone(lease));
        }
        if let Some(name) = table.ended.granted_again(id, token) {
            return Meaning::GrantedAgain(name);
        }
        let is_meant = |nonce_of| nonce_of == nonce || bugs::is_on(Bug::GrantMatchedByName);
        let Some(waiter) = table.waiters.get(id).filter(|waiter| is_meant(waiter.nonce)) else {
            return Meaning::Nothing;
        };
        // Without a renewal nothing would confirm it in the background.
        let may_enter = waiter.options.renewal == Renewal::Auto
            && !self.store.inner.capabilities().claims_first;
        let newest = self.store.newest(&waiter.name).filter(|_| may_enter);
        let until = newest.and_then(|newest| {
            let bounds = &self.store.bounds;
            bounds.valid_by_message(newest.lease_clock(), now, granted_us, deadline_us)
        });
        let least = waiter.options.least_validity();
        match until.filter(|until| until.saturating_since(now) > least) {
            Some(until) => match table.waiters.take(id) {
                Some(waiter) => Meaning::Enter(Box::new(waiter), until),
                None => Meaning::Nothing,
            },
            None => {
                table.waiters.announced(id);
                Meaning::Nothing
            }
        }
    }

    /// Gives a waiter its lease, and its line with it. If nobody takes it any more, dropping it
    /// lets go, and so does the keeper if nobody fetches it in time.
    pub(super) fn enter(
        self: &Arc<Self>,
        waiter: Waiter,
        token: FencingToken,
        valid_until: Instant,
        confirmed: bool,
        now: Instant,
    ) {
        let validity = valid_until.saturating_since(now);
        let delivery = match waiter.pulse {
            Some(pulse) => Delivery::Gathered(pulse),
            None => {
                let limit = waiter.options.max_hold.unwrap_or(validity);
                Delivery::waiting(now, validity.min(limit))
            }
        };
        let granted = Granted {
            name: waiter.name,
            id: waiter.id,
            mode: waiter.mode,
            options: waiter.options,
            unanswered: waiter.unanswered,
            token,
            valid_until,
            confirmed,
            delivery,
            joins: waiter.joins,
            ticket: waiter.ticket,
        };
        let held = self.hold(granted, now);
        let _ = waiter.turn.send(Turn::Granted(held));
    }
}

pub(super) fn fail(waiter: Waiter, error: &StoreError) {
    let same = error.clone().not_executed();
    // The caller may have given up: then there is nobody to tell.
    let _ = waiter.turn.send(Turn::Failed(same));
}
