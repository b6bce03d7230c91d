//! A change of a lease: a reader becomes the writer, a writer a reader, or others see other facts
//! about the holder.

use std::iter;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::{
    Action, Error, Holder, HolderInfo, Instant, Mode, Operation, Reply, Result, StoreError,
    StoreErrorKind,
};

use crate::keeper::Held;
use crate::lost::Lost;
use crate::replies::{renewal_outcome, unexpected_reply};
use crate::store::clocked::TimedAnswer;

/// The pause between two requests of an upgrade while the store is away: 100 ms.
const OUTAGE_PAUSE: Duration = Duration::from_millis(100);

/// The longest wait for a request that is under way at the limit of an upgrade, or is sent after
/// it: 500 ms. A waiter that leaves a queue waits as long.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// Makes a reader the writer as soon as it is alone. Returns false if others still read at
/// `give_up`; the request is then withdrawn.
pub(super) async fn upgrade(held: &Held, give_up: Option<Instant>) -> Result<bool> {
    let Some(number) = held.state.begin_upgrade() else { return Ok(true) };
    let mut change = Change::new(held, number);
    loop {
        let now = held.keeper.store.now();
        let left = give_up.map_or(Duration::MAX, |limit| limit.saturating_since(now));
        let until = give_up.map(|limit| limit.max(now) + LAST_PATIENCE);
        match change.ask(Mode::Exclusive, until).await.map(|timed| timed.answer.reply) {
            Err(error) if error.kind().is_outage() && !left.is_zero() => {
                until_rung(held, OUTAGE_PAUSE.min(left)).await?;
            }
            Err(error) if error.kind() == StoreErrorKind::Unsupported => {
                change.settle_unsupported();
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
            Ok(Reply::Granted(grant)) if held.state.upgraded(change.number, grant.token) => {
                held.keeper.report_mode(&held.state, Mode::Exclusive);
                return Ok(true);
            }
            // A request that was given up earlier has reached the store in between.
            Ok(Reply::Granted(_) | Reply::Stale) => {}
            Ok(Reply::Busy { .. }) if left.is_zero() => {
                let until = held.keeper.store.now() + LAST_PATIENCE;
                return change.take_back(until).await.map(|()| false);
            }
            Ok(Reply::Busy { retry_after }) => until_rung(held, retry_after.min(left)).await?,
            Ok(Reply::WouldDeadlock) => {
                return Err(Error::would_deadlock(held.state.name.clone()));
            }
            Ok(reply) => return Err(not_changed(held, &reply)),
        }
        // Each request has a new number, so that the store writes something whenever it grants:
        // replicas acknowledge only writes. The upgrade itself may have been written already, by
        // the release of the last other reader.
        if !change.renumber() {
            return Ok(true);
        }
    }
}

/// Makes the writer a reader, or an upgradable reader a plain reader.
pub(super) async fn downgrade(held: &Held) -> Result<()> {
    let (mode, number) = held.state.begin_downgrade();
    held.keeper.leave_line(held);
    held.keeper.report_mode(&held.state, mode);
    Change::new(held, number).become_reader(mode, None).await
}

/// Another holder of the name, if the store answers in time.
pub(super) async fn another_holder(held: &Held) -> Option<Box<Holder>> {
    let store = &held.keeper.store;
    let until = store.now() + LAST_PATIENCE;
    // Two, because the first may be this holder.
    let status = store.inspect(&held.state.name, 2, Some(until)).await.ok()?;
    let mut holders = status.holders.into_iter();
    holders.find(|holder| holder.id != held.state.id).map(Box::new)
}

/// Tells the store other facts about the holder.
pub(super) async fn describe(held: &Held, info: &HolderInfo) -> Result<Reply, StoreError> {
    let action = Action::Describe { id: held.state.id, info: info.clone() };
    let timed = held.keeper.store.apply(&held.state.name, action).await?;
    Ok(timed.answer.reply)
}

/// The error for an unexpected answer to a change of the lease.
pub(super) fn not_changed(held: &Held, reply: &Reply) -> Error {
    match renewal_outcome(reply, held.state.grant_token()) {
        Some(Err(reason)) => {
            held.keeper.lose(&held.state, reason);
            held.state.lost(reason)
        }
        Some(Ok(_)) | None => unexpected_reply(reply).into(),
    }
}

/// Waits for the store's message, for the loss of the lease, or for the time to ask again.
async fn until_rung(held: &Held, at_most: Duration) -> Result<()> {
    let clock = &held.keeper.store.clock;
    let rung = std::pin::pin!(held.state.upgraded.notified());
    let timer = clock.sleep_until(clock.now() + at_most);
    match select(Lost::new(iter::once(&held.state.signal)), select(rung, timer)).await {
        Either::Left((Some(reason), _)) => Err(held.state.lost(reason)),
        Either::Left((None, _)) | Either::Right(_) => Ok(()),
    }
}

/// A change of mode under way. If it is dropped, the keeper makes sure that the lease is a
/// reader's: it takes an upgrade back, so that readers are admitted again, and finishes a
/// downgrade.
struct Change<'a> {
    held: &'a Held,
    number: u64,
    /// The store knows the outcome, or need not know it.
    is_settled: bool,
}

impl<'a> Change<'a> {
    fn new(held: &'a Held, number: u64) -> Self {
        Self { held, number, is_settled: false }
    }

    fn action(&self, mode: Mode) -> Action {
        Action::ChangeMode { id: self.held.state.id, mode, change: self.number }
    }

    async fn ask(&self, mode: Mode, until: Option<Instant>) -> Result<TimedAnswer, StoreError> {
        let (store, name) = (&self.held.keeper.store, self.held.state.name.clone());
        let operation = Operation::On { name, action: self.action(mode) };
        store.execute_at(operation, store.now(), until).await
    }

    /// Draws a new number for the next request. Returns false if there is nothing left to ask for.
    fn renumber(&mut self) -> bool {
        let drawn = self.held.state.begin_upgrade();
        self.number = drawn.unwrap_or(self.number);
        drawn.is_some()
    }

    /// Ends the change: this store cannot change modes, so it has nothing to take back.
    fn settle_unsupported(&mut self) {
        self.held.state.give_up_change(self.number);
        self.is_settled = true;
    }

    /// Gives an upgrade up, unless a later change has taken its place.
    async fn take_back(self, until: Instant) -> Result<()> {
        match self.held.state.give_up_change(self.number) {
            Some(mode) => self.become_reader(mode, Some(until)).await,
            None => Ok(()),
        }
    }

    /// Tells the store what kind of reader has the lease. If no answer comes, the keeper tells the
    /// store later.
    async fn become_reader(mut self, mode: Mode, until: Option<Instant>) -> Result<()> {
        let answered = self.ask(mode, until).await;
        // Otherwise the drop of `self` leaves the change to the keeper, which is as good.
        self.is_settled = !answered.as_ref().is_err_and(|error| error.kind().is_transient());
        if !self.is_settled {
            return Ok(());
        }
        match answered?.answer.reply {
            // Stale: the store has seen a later request of this lease.
            Reply::Granted(_) | Reply::Stale => Ok(()),
            ref reply => Err(not_changed(self.held, reply)),
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let state = &self.held.state;
        if !self.is_settled
            && let Some(mode) = state.give_up_change(self.number)
        {
            let action = self.action(mode);
            self.held.keeper.clean(state.name.clone(), action, state.longest_ttl());
        }
    }
}
