//! The held lease.

use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use leasehold_core::{
    Action, Description, Error, FencingToken, HolderId, Instant, InvalidInput, Lease, LeaseOptions,
    LockName, LossReason, Mode, Reply, Result, StoreError,
};

use crate::event::{self, Event};
use crate::keeper::{Held, Keeper, LeaseState};
use crate::lost::{End, Lost, Signalled};
use crate::replies::{outcome, unexpected_reply};

/// A held lease. [`release`](Guard::release) releases it now; dropping the guard releases it soon,
/// in the background.
///
/// **Bind a guard to a name: `let guard = …`.** With `let _ = …`, `….is_some()` and a bare
/// `try_acquire().await?;` the guard is dropped in the same statement, and the lock excludes
/// nobody. The lint `#![warn(let_underscore_drop)]` of rustc finds the first of these; no lint
/// finds the others.
///
/// A guard holds no data, because a `Deref` would promise a protection that does not exist. Carry
/// its [`token`](Guard::token) to the resource that the lock protects instead. Dropping a guard
/// never panics: inside or outside of a runtime, during unwinding and after shutdown. It never
/// blocks either, with one exception. The drop of the last of a client's handles and guards, as at
/// the end of `main`, waits for the releases, for 1 s at most. If a process ends in another way
/// (`abort`, `process::exit`, `kill -9`, a task that is never dropped), its leases end after their
/// ttl. So call [`release`](Guard::release) or [`Client::close`](crate::Client::close) before that.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let client = leasehold::Client::memory();
/// let guard = client.mutex("invoices/42").acquire().await?;
/// println!("token {}, valid for {:?}", guard.token(), guard.validity());
/// // … a step of the work …
/// guard.ensure_held()?; // before the next: asks no server
/// guard.release().await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "if unused the lease is released at once"]
pub struct Guard {
    /// The lease of the first name that was asked for.
    first: Held,
    /// Those of the other names, in the order asked for.
    others: Vec<Held>,
}

impl Guard {
    pub(crate) fn new(held: Held) -> Self {
        Self { first: held, others: Vec::new() }
    }

    /// A guard of several names; `None` for none at all.
    pub(crate) fn of_all(held: Vec<Held>) -> Option<Self> {
        let mut held = held.into_iter();
        Some(Self { first: held.next()?, others: held.collect() })
    }

    fn held(&self) -> impl Iterator<Item = &Held> {
        once(&self.first).chain(&self.others)
    }

    fn state(&self) -> &LeaseState {
        &self.first.state
    }

    /// Whether the store knows who holds the lease.
    pub(crate) fn is_described(&self) -> bool {
        self.state().changing().known.is_some()
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        &self.first.keeper
    }

    fn now(&self) -> Instant {
        self.keeper().store.now()
    }

    /// The name of the lock. With several names, the first one that was asked for.
    pub fn name(&self) -> &LockName {
        &self.state().name
    }

    /// The fencing token of the grant. With several names, each has a separate token: see
    /// [`tokens`](Guard::tokens).
    ///
    /// The token of a reader or of a permit says only which grant came first. It must not guard a
    /// resource that several holders write: a later holder would fence out an earlier one that is
    /// still valid.
    pub fn token(&self) -> FencingToken {
        self.state().token()
    }

    /// Each held name with its token, in the order in which the names were asked for.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = (&LockName, FencingToken)> {
        let tokens = self.held().map(|held| (&held.state.name, held.state.token()));
        tokens.collect::<Vec<_>>().into_iter()
    }

    /// The id of the holder in the store. With several names, the id for the first name.
    pub fn holder(&self) -> HolderId {
        self.state().id()
    }

    /// The mode in which the lease is held.
    pub fn mode(&self) -> Mode {
        self.state().request.mode
    }

    /// The time for which the lease may still be relied on without a renewal. Zero once the lease
    /// is lost.
    ///
    /// Right after the previous holder handed the lock over, the validity is at most 2 s. Within
    /// 100 ms it becomes the ttl.
    pub fn validity(&self) -> Duration {
        let now = self.now();
        if self.loss_at(now).is_some() {
            return Duration::ZERO;
        }
        let left = |held: &Held| held.state.signal.valid_until().saturating_since(now);
        self.held().map(left).min().unwrap_or_default()
    }

    /// Whether the lease may still be relied on. The call does no I/O: it compares the clock, then
    /// checks whether a loss has been noticed. With several names, the loss of one is the loss of
    /// all.
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Like [`is_held`](Guard::is_held), but returns the loss as an error.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] with the reason, and the name if there are several.
    pub fn ensure_held(&self) -> Result<()> {
        self.ensure_held_at(self.now())
    }

    fn ensure_held_at(&self, now: Instant) -> Result<()> {
        self.held().try_for_each(|held| held.ensure_held_at(now))
    }

    /// The loss signal: completes with the reason once the lease is lost, and with `None` once it
    /// was released. With several names, the first loss counts.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let client = leasehold::Client::memory();
    /// let guard = client.mutex("invoices/42").acquire().await?;
    /// tokio::select! {
    ///     done = charge() => println!("charged {done}"),
    ///     Some(reason) = guard.lost() => println!("stopped: {reason}"),
    /// }
    /// guard.release().await
    /// # }
    /// # async fn charge() -> u32 { 7 }
    /// ```
    pub fn lost(&self) -> Lost {
        Lost::new(self.held().map(|held| Arc::clone(&held.state) as Signalled))
    }

    /// Why the lease was lost, or `None` while it may be relied on. Like
    /// [`is_held`](Guard::is_held), it does no I/O.
    pub fn loss(&self) -> Option<LossReason> {
        self.loss_at(self.now())
    }

    fn loss_at(&self, now: Instant) -> Option<LossReason> {
        self.held().find_map(|held| held.state.signal.check_here(now).and_then(End::loss))
    }

    /// Calls `call` once if the lease is lost, but not if it is released.
    ///
    /// The thread that renews all leases runs `call`, so `call` must be quick and must not block:
    /// set a flag, send on a channel, drop a guard. A panic of `call` is caught, costs no lease,
    /// and is reported as a [`Warning`](crate::event::Event::Warning).
    pub fn on_lost(&self, call: impl FnOnce(LossReason) + Send + 'static) {
        let observers = self.keeper().store.observers.clone();
        self.lost().call_back(move |reason| {
            if event::panics(|| call(reason)) {
                let text = "a callback of on_lost panicked: mend it";
                observers.observe(&Event::Warning { text });
            }
        });
    }

    /// Renews now, and returns the validity that is then left. The keeper does this by itself
    /// unless the lease was taken with [`Renewal::Off`](crate::lease::Renewal::Off).
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease turns out to be lost. [`Error::Store`] if the store could not
    /// be asked: the validity is then unchanged.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was renewed.
    pub async fn renew(&self) -> Result<Duration> {
        self.renew_by(None).await
    }

    /// Renews now, for a longer or shorter ttl, and returns the validity that is then left. From
    /// then on the keeper renews the lease for this ttl, once every third of the ttl.
    ///
    /// A shorter ttl does not shorten the present lease: a store never moves a promised end to an
    /// earlier time. If this process dies, others wait for the rest of the longer ttl or for the
    /// shorter ttl, whichever is longer. [`release`](Guard::release) frees the name immediately.
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a ttl that is out of range (100 ms to 24 h) or that leaves too little
    /// validity. Otherwise the same as [`renew`](Guard::renew): after [`Error::Store`] the ttl is
    /// unchanged.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was renewed; the ttl is unchanged.
    pub async fn renew_for(&self, ttl: Duration) -> Result<Duration> {
        let mut options = (*self.state().options).clone();
        options.ttl = ttl;
        options.check()?;
        self.keeper().store.bounds.check(ttl, Duration::ZERO)?;
        self.renew_by(Some(ttl)).await
    }

    /// Renews the lease, for the same ttl or for another one.
    async fn renew_by(&self, another: Option<Duration>) -> Result<Duration> {
        self.ensure_held()?;
        if let Some(ttl) = another {
            // The store may execute a renewal whose answer never comes.
            self.held().for_each(|held| held.state.may_last(ttl));
        }
        let states: Vec<_> = self.held().map(|held| Arc::clone(&held.state)).collect();
        let kept = self.keeper().keep(&states, another, None).await;
        self.ensure_held()?;
        kept?;
        Ok(self.validity())
    }

    /// The statement that fences a transaction like [`FENCE`](crate::fence::postgres::FENCE), with
    /// the same values and for the same schema, and ends the lease with its commit: the writes and
    /// the end of the lease take effect together. The locks and the data must be in one PostgreSQL
    /// database.
    ///
    /// Release or drop the guard after the commit: the lease is over already, but the release hands
    /// the name to the next waiter. If the process dies before that, the name is free nevertheless,
    /// and the next waiter gets it within a second. Make this statement the last of its
    /// transaction. Do not use it inside [`run`](crate::Lock::run), which would treat the end as a
    /// loss. The statement keeps no `min_hold` and no `once_per`. If another client got the name
    /// first, the release reports [`Error::Lost`]: the commit counts all the same.
    ///
    /// The client does not learn of the commit. So from this call on, it passes the lease to no
    /// other caller.
    pub fn release_at_commit(&self) -> &'static str {
        self.held().for_each(|held| held.keeper.leave_gate(held));
        "SELECT leasehold.release_at_commit($1, $2)"
    }

    /// A second guard on the same lease: re-entry. It is explicit, because a task, unlike a thread,
    /// cannot be recognised as the holder. The second guard has the same token, and costs no round
    /// trip. The lease is released with the last of its guards.
    ///
    /// While a lease has more than one guard, none of them can be handed out: the holders of the
    /// other guards rely on the lease.
    ///
    /// A caller that already holds a lock and acquires it again waits for itself.
    /// [`Event::Waiting`](crate::event::Event::Waiting) and [`Error::Timeout`] report this. It
    /// happens with a mutex, and with a write lock while the caller holds a read lock. It also
    /// happens with a second read lock, once a writer waits, and with permits, if the caller's own
    /// permits leave too few.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease is lost already.
    pub fn reenter(&self) -> Result<Self> {
        self.ensure_held()?;
        let others = self.others.iter().map(Held::again).collect();
        Ok(Self { first: self.first.again(), others })
    }

    /// Changes the label that others see for this holder, on each name.
    ///
    /// Cost: one round trip for each name, and three more if the store has forgotten the lease and
    /// the holder takes it back.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a label that is not allowed; [`Error::Lost`]; [`Error::Store`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the label has changed on all names, on some or on none.
    pub async fn set_label(&self, label: impl Into<String>) -> Result<()> {
        self.ensure_held()?;
        let label = Some(label.into());
        let info = self.keeper().info(label.clone());
        info.check()?;
        for held in self.held() {
            // First: the keeper may be telling the store the old label, and then tells it again.
            held.state.changing().shown_label.clone_from(&label);
            let description = held.state.description(Arc::clone(&info));
            let mut reply = describe(held, &description).await?;
            if matches!(reply, Reply::NotHeld) {
                // The store may only have forgotten the lease. The renewal takes it back, or finds
                // that it is lost.
                self.renew().await?;
                reply = describe(held, &description).await?;
            }
            match (&reply, outcome(&reply)) {
                (Reply::Kept { .. }, _) => {}
                (Reply::Closed | Reply::Revoked, Some(Err(reason))) => {
                    held.keeper.lose(&held.state, reason);
                    return Err(held.state.lost(reason));
                }
                _ => return Err(unexpected_reply(&reply).into()),
            }
        }
        Ok(())
    }

    /// Releases the lease now; the first waiter in the queue gets the lock in the same step. While
    /// other guards of the same lease live, only this guard ends, and the lease stays.
    ///
    /// Cost: one round trip; with several names, one for each name, all at the same time. If the
    /// lease was held for a second or longer, another round trip tells the watchers of the name.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease was lost before: another holder may have worked at the same
    /// time. If no answer came, the call still returns `Ok`, and the keeper repeats the release
    /// until the store has received it. [`Error::Store`] if the store refuses the release. If a
    /// right is missing, the keeper keeps trying as well, for as long as the lease would have
    /// lasted.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper finishes the release.
    pub async fn release(mut self) -> Result<()> {
        let now = self.now();
        if self.keeper().is_of_parent() {
            return self.ensure_held_at(now);
        }
        if self.others.is_empty() {
            return self.first.release(now).await;
        }
        let all = once(&mut self.first).chain(&mut self.others);
        join_all(all.map(|held| held.release(now))).await.into_iter().collect()
    }

    /// Releases the lease like [`release`](Guard::release), and says that the work under it has
    /// succeeded. The store keeps that if the lock was asked for
    /// [`once_per`](crate::Lock::once_per) some time. Of several guards, the last to end decides.
    ///
    /// # Errors
    ///
    /// The same as [`release`](Guard::release). If the lease was lost, the store keeps nothing.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper finishes the release.
    pub async fn done(self) -> Result<()> {
        // First: a forked child must not lock what follows.
        if self.is_held() {
            let mut changing = self.state().changing();
            changing.has_succeeded |= changing.guards == 1;
        }
        self.release().await
    }

    /// Runs `work` and releases, for the methods that do both. Work that still runs when the lease
    /// is lost is dropped.
    pub(crate) async fn run<T, E: From<Error>>(
        self,
        work: impl AsyncFnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = {
            let work = std::pin::pin!(work(&self));
            match select(self.lost(), work).await {
                Either::Left(_) => None,
                Either::Right((done, _)) => Some(done),
            }
        };
        self.ensure_held()?;
        // The lease is held, so the work has ended and `done` is there.
        let Some(done) = done else { return Err(Error::Closed.into()) };
        // The value of the work counts, even if the release fails.
        drop(if done.is_ok() { self.done().await } else { self.release().await });
        done
    }

    /// Stops renewing the lease and returns it as a value, for [`Client::adopt`] in another
    /// process. The lease ends after its ttl unless somebody adopts it before; only the first
    /// caller that adopts the lease gets it.
    ///
    /// In the file store, the lease also ends with this process, unless it was adopted before.
    ///
    /// [`Client::adopt`]: crate::Client::adopt
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease is lost; [`Error::Invalid`] while another guard of the lease
    /// lives, for a guard of several names, and for a lease with `once_per`, `min_hold` or
    /// `max_hold`, which would not go along.
    pub fn into_lease(self) -> Result<Lease> {
        self.check_handing_out()?;
        self.state().finish();
        self.keeper().forget(self.state());
        let state = self.state();
        // The store knows the lease by the token of the grant.
        let (name, token) = (state.name.clone(), state.grant_token);
        Ok(Lease::new(name, state.id(), state.request.mode, token, state.ttl()))
    }

    /// What [`into_lease`](Guard::into_lease) refuses. Language bindings ask this first, to keep a
    /// guard that cannot be handed out.
    #[doc(hidden)]
    pub fn check_handing_out(&self) -> Result<()> {
        self.ensure_held()?;
        // No other guard can appear after this check: only the caller's guard could be re-entered,
        // and the caller has it exclusively.
        if self.state().changing().guards != 1 {
            let why =
                "the lease is re-entered and cannot be handed out: drop its other guards first";
            return Err(InvalidInput::new("lease", why).into());
        }
        if !self.others.is_empty() {
            let count = 1 + self.others.len();
            let why = format!("a guard of {count} names cannot be handed out: acquire them singly");
            return Err(InvalidInput::new("names", why).into());
        }
        let LeaseOptions { once_per, min_hold, max_hold, .. } = *self.state().options;
        if once_per.or(min_hold).or(max_hold).is_some() {
            let why = "`once_per`, `min_hold` and `max_hold` are not handed out with a lease: \
                       acquire it where the job ends";
            return Err(InvalidInput::new("lease", why).into());
        }
        Ok(())
    }
}

/// Tells the store other facts about the holder.
async fn describe(held: &Held, description: &Description) -> Result<Reply, StoreError> {
    let describe = Action::Keep(held.state.describe(description));
    let timed = held.keeper.store.apply(&held.state.name, describe).await?;
    if matches!(timed.answer.reply, Reply::Kept { .. }) {
        held.state.changing().known = Some(description.clone());
    }
    Ok(timed.answer.reply)
}
