//! The held lease.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::{
    Action, Error, FencingToken, HolderId, Invalid, Lease, LockName, LossReason, Mode, Operation,
    RenewLease, Reply, Result, StoreError,
};

use crate::contact::Timed;
use crate::keeper::{Held, LeaseState, may_pass, renewal_outcome, unexpected};
use crate::lost::Lost;

/// A held lease. [`release`](Guard::release) lets go now; dropping lets go soon, in the background.
///
/// It holds no data, because a `Deref` would promise a protection that does not exist: carry
/// [`token`](Guard::token) to whatever the lock protects instead. Dropping a guard never blocks and
/// never panics, inside or outside of a runtime, during unwinding and after shutdown.
#[derive(Debug)]
#[must_use = "if unused the lease is released at once"]
pub struct Guard {
    held: Arc<Held>,
}

impl Guard {
    pub(crate) fn new(held: Held) -> Self {
        Self { held: Arc::new(held) }
    }

    fn state(&self) -> &LeaseState {
        &self.held.state
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        &self.state().name
    }

    /// The fencing token of the grant. It changes only by [`upgrade`](Guard::upgrade).
    ///
    /// A reader's or a permit's token orders grants, but must not guard one resource that several
    /// of them write: a later peer would fence out an earlier one that is still valid.
    pub fn token(&self) -> FencingToken {
        self.state().token()
    }

    /// Who the store knows as the holder.
    pub fn holder(&self) -> HolderId {
        self.state().id
    }

    /// What is held.
    pub fn mode(&self) -> Mode {
        self.state().mode()
    }

    /// How much longer the lease may be relied on, unless it is renewed: zero when it is lost.
    ///
    /// Right after a hand-over this is up to 2 s, and becomes the ttl within a few milliseconds.
    pub fn validity(&self) -> Duration {
        match self.state().signal.check() {
            Some(_) => Duration::ZERO,
            None => {
                let now = self.held.keeper.contact.now();
                self.state().signal.valid_until().saturating_since(now)
            }
        }
    }

    /// Whether the lease may still be relied on. No I/O: compares the clock, then looks whether a
    /// loss was found out.
    pub fn is_held(&self) -> bool {
        self.state().signal.check().is_none()
    }

    /// The same as an error to return.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] with the reason.
    pub fn ensure_held(&self) -> Result<()> {
        self.state().signal.check().map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    fn lost_error(&self, reason: LossReason) -> Error {
        Error::Lost { name: self.name().clone(), token: self.token(), reason }
    }

    /// The loss signal: completes when the lease ends.
    pub fn lost(&self) -> Lost {
        self.state().signal.lost()
    }

    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.state().signal.check()
    }

    pub(crate) fn on_lost(&self, call: impl FnOnce(LossReason) + Send + 'static) {
        self.state().signal.on_end(call);
    }

    /// Renews now, and gives the validity that is left after it. The keeper does this by itself
    /// unless the lease was taken with [`Renewal::Off`](crate::Renewal::Off).
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it turns out to be lost, [`Error::Store`] if the store could not be
    /// asked: the lease is then as valid as it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was renewed.
    pub async fn renew(&self) -> Result<Duration> {
        self.ensure_held()?;
        let state = self.state();
        let renew = RenewLease { name: state.name.clone(), id: state.id, ttl: state.options.ttl };
        let timed = self.held.keeper.contact.execute(Operation::Renew(vec![renew])).await?;
        let Reply::Many(replies) = &timed.answer.reply else {
            return Err(unexpected(&timed.answer.reply).into());
        };
        match replies.first().and_then(|reply| renewal_outcome(reply, self.token())) {
            Some(Ok(grant)) => {
                let until = self.held.keeper.contact.valid_until(&timed, grant, state.options.ttl);
                self.held.keeper.extend(state, until);
                self.ensure_held()?;
                Ok(self.validity())
            }
            Some(Err(reason)) => {
                self.held.keeper.lose(state, reason);
                Err(self.lost_error(reason))
            }
            None => Err(unexpected(&timed.answer.reply).into()),
        }
    }

    /// A second guard on the same lease: re-entry, made explicit because tasks are not threads.
    /// Same token; the lease is released with the last of its guards. No round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease is lost already.
    pub fn reenter(&self) -> Result<Self> {
        self.ensure_held()?;
        Ok(Self { held: Arc::clone(&self.held) })
    }

    /// Makes a reader the writer: waits until the other readers have let go, and admits no new one
    /// meanwhile. The token is minted anew. A writer stays what it is.
    ///
    /// Cost: one round trip when alone, else one more per second of waiting, and one when woken.
    ///
    /// # Errors
    ///
    /// [`Error::WouldDeadlock`] if another reader waits for the same: release the read lease then.
    /// [`Error::Lost`], [`Error::Store`]; [`Error::Invalid`] for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease a read lease.
    pub async fn upgrade(&mut self) -> Result<()> {
        self.check_lock("upgraded")?;
        let mut intent = Intent { held: &self.held, armed: true };
        loop {
            let timed = match self.change_mode(Mode::Exclusive).await {
                Ok(timed) => timed,
                Err(error) if may_pass(&error) => {
                    self.until_rung(Duration::from_millis(100)).await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match timed.answer.reply {
                Reply::Granted(grant) => {
                    intent.armed = false;
                    self.state().changed(Mode::Exclusive, grant.token);
                    return Ok(());
                }
                Reply::Busy { retry_after } => self.until_rung(retry_after).await?,
                Reply::WouldDeadlock => {
                    intent.armed = false;
                    return Err(Error::WouldDeadlock { name: self.name().clone() });
                }
                ref reply => return Err(self.not_changed(reply)),
            }
        }
    }

    /// Makes the writer a reader, at once, and admits the readers that wait. The token stays.
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`], [`Error::Store`]; [`Error::Invalid`] for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open which of the two the lease is; ask again to be sure.
    pub async fn downgrade(&mut self) -> Result<()> {
        self.check_lock("downgraded")?;
        let timed = self.change_mode(Mode::Shared).await?;
        match timed.answer.reply {
            Reply::Granted(grant) => {
                self.state().changed(Mode::Shared, grant.token);
                Ok(())
            }
            ref reply => Err(self.not_changed(reply)),
        }
    }

    fn check_lock(&self, verb: &str) -> Result<()> {
        self.ensure_held()?;
        match self.mode() {
            Mode::Exclusive | Mode::Shared => Ok(()),
            Mode::Permits { .. } => {
                let why = format!("a permit cannot be {verb}: use a read/write lock");
                Err(Invalid::new("mode", why).into())
            }
        }
    }

    async fn change_mode(&self, mode: Mode) -> Result<Timed, StoreError> {
        let action = Action::ChangeMode { id: self.holder(), mode };
        self.held.keeper.contact.apply(self.name(), action).await
    }

    fn not_changed(&self, reply: &Reply) -> Error {
        match renewal_outcome(reply, self.token()) {
            Some(Err(reason)) => {
                self.held.keeper.lose(self.state(), reason);
                self.lost_error(reason)
            }
            Some(Ok(_)) | None => unexpected(reply).into(),
        }
    }

    /// Waits for the store's message, for the loss of the lease, or for the time to ask again.
    async fn until_rung(&self, at_most: Duration) -> Result<()> {
        let clock = &self.held.keeper.contact.clock;
        let rung = std::pin::pin!(self.state().upgraded.notified());
        let timer = clock.sleep_until(clock.now() + at_most);
        match select(self.lost(), select(rung, timer)).await {
            Either::Left((reason, _)) => Err(self.lost_error(reason)),
            Either::Right(_) => Ok(()),
        }
    }

    /// Lets go now; the first in the queue is granted in the same step. While other guards of the
    /// same lease live, this one merely ends.
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease was lost before: what it covered may not have been alone. If no
    /// answer came, it is `Ok` all the same, and the keeper goes on until the store knows.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the keeper finish the release.
    pub async fn release(self) -> Result<()> {
        if Arc::strong_count(&self.held) > 1 {
            return self.ensure_held();
        }
        self.ensure_held()?;
        let (keeper, state) = (&self.held.keeper, self.state());
        let action = keeper.release_action(state);
        keeper.forget(state);
        match keeper.contact.apply(&state.name, action).await {
            Ok(timed) => {
                state.finish();
                match renewal_outcome(&timed.answer.reply, self.token()) {
                    Some(Err(reason)) => Err(self.lost_error(reason)),
                    Some(Ok(_)) | None => Ok(()),
                }
            }
            // Dropping the guard leaves it to the keeper.
            Err(error) if may_pass(&error) => Ok(()),
            Err(error) => {
                state.finish();
                Err(error.into())
            }
        }
    }

    /// Stops renewing and gives the lease out as a value, for [`Client::adopt`] in another process.
    /// It ends after its ttl unless it is adopted before.
    ///
    /// In the file store a lease cannot outlive the process that acquired it.
    ///
    /// [`Client::adopt`]: crate::Client::adopt
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it is lost; [`Error::Invalid`] while another guard of the lease lives.
    pub fn into_lease(self) -> Result<Lease> {
        self.ensure_held()?;
        if Arc::strong_count(&self.held) > 1 {
            let why = "the lease is re-entered: drop the other guards before handing it out";
            return Err(Invalid::new("lease", why).into());
        }
        self.state().finish();
        self.held.keeper.forget(self.state());
        let state = self.state();
        Ok(Lease {
            name: state.name.clone(),
            holder: state.id,
            mode: state.mode(),
            token: state.token(),
            ttl: state.options.ttl,
        })
    }
}

/// A reader's wish to become the writer. Dropping it takes the wish back, so that readers are
/// admitted again.
struct Intent<'a> {
    held: &'a Held,
    armed: bool,
}

impl Drop for Intent<'_> {
    fn drop(&mut self) {
        if self.armed {
            let state = &self.held.state;
            let action = Action::ChangeMode { id: state.id, mode: Mode::Shared };
            self.held.keeper.clean(state.name.clone(), action, state.options.ttl);
        }
    }
}
