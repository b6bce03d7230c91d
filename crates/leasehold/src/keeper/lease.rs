//! An attempt to get a lease, and the state of the lease that comes of it: its caller and the
//! keeper share both.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use leasehold_core::{
    Action, Description, End as EndHold, Error, FencingToken, Grant, HolderId, HolderInfo, Instant,
    Keep, LeaseOptions, LockName, LossReason, Mode, PassedOn, Renewal, Request, StoreError,
};
use tokio::sync::Notify;

use super::Keeper;
use super::polled::Polled;
use crate::event::LeaseFacts;
use crate::failures::FailureStreak;
use crate::lost::Signal;
use crate::mutex::Mutex;

/// What a message means for an attempt that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Messages may have been lost, or the client was closed: look again.
    Ask,
    /// The store has granted the attempt, at this time by its clock.
    Granted { token: FencingToken, now_us: u64 },
}

/// An attempt, shared by its call and the keeper, and later by its lease.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) name: LockName,
    /// What every request of the attempt says.
    pub(crate) request: Request,
    pub(crate) options: Arc<LeaseOptions>,
    /// If the call gathers several names, when it was polled last.
    pub(crate) gathers: Option<Arc<Polled>>,
    /// Whether the attempt may stand at a gate, with other callers of its client that ask for the
    /// same lease.
    joins: bool,
    told: Mutex<Option<Told>>,
    rung: Notify,
}

impl Attempt {
    pub(crate) fn new(
        name: LockName,
        request: Request,
        options: Arc<LeaseOptions>,
        gathers: Option<Arc<Polled>>,
        joins: bool,
    ) -> Arc<Self> {
        let (told, rung) = (Mutex::default(), Notify::new());
        Arc::new(Self { name, request, options, gathers, joins, told, rung })
    }

    pub(crate) fn id(&self) -> HolderId {
        self.request.id
    }

    /// The number by which the keeper knows the attempt.
    pub(super) fn number(&self) -> u64 {
        self.request.id.attempt
    }

    /// What all callers at a gate ask for: the ttl of the lease. A caller with another ttl asks the
    /// store itself. There is none if a lease of this attempt may not be passed on, because an
    /// option concerns a single grant: a limit of the hold, `once_per`, or renewals by the holder.
    pub(super) fn terms(&self) -> Option<Duration> {
        let LeaseOptions { ttl, renewal, max_hold, min_hold, once_per, .. } = *self.options;
        let joins = self.joins
            && self.request.mode == Mode::Exclusive
            && renewal == Renewal::Auto
            && max_hold.is_none()
            && min_hold.is_none()
            && once_per.is_none();
        joins.then_some(ttl)
    }

    pub(super) fn tell(&self, told: Told) {
        {
            let mut before = self.told.lock();
            // A gap says less than a grant.
            if told != Told::Ask || before.is_none() {
                *before = Some(told);
            }
        }
        self.rung.notify_one();
    }

    /// Waits until something is told. Dropping the future loses nothing.
    pub(crate) async fn told(&self) -> Told {
        loop {
            let told = self.told.lock().take();
            match told {
                Some(told) => return told,
                None => self.rung.notified().await,
            }
        }
    }
}

/// A held lease, as one of its guards has it. If the last of them is dropped, the keeper releases
/// the lease, unless it was released or handed out before.
pub(crate) struct Held {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) state: Arc<LeaseState>,
    /// The drop of this guard has nothing to do.
    pub(super) has_ended: bool,
}

debug_as!(Held => |it, f| std::fmt::Debug::fmt(&it.state, f));

/// The state of a lease, shared by its guards and the keeper.
#[derive(Debug)]
pub(crate) struct LeaseState {
    /// The attempt that was granted.
    pub(super) attempt: Arc<Attempt>,
    /// The options of the present holder, to which the lease may have been passed on.
    pub(crate) options: Arc<LeaseOptions>,
    pub(crate) granted_at: Instant,
    pub(crate) signal: Signal,
    /// How many times the lease was passed on since the grant, and when the last time was. The
    /// token of this guard is higher than that of the grant by that number.
    pub(crate) passed_on: PassedOn,
    /// The token of the grant, by which the store identifies the lease.
    pub(crate) grant_token: FencingToken,
    changing: Mutex<Changing>,
}

/// The state that changes while a lease is held.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    /// The number of guards. It is zero once a caller or the keeper has taken on the release, or
    /// the lease was handed out.
    pub(crate) guards: usize,
    /// The ttl of the renewals.
    pub(crate) ttl: Duration,
    /// The longest time for which a store may keep the lease without a renewal: a shorter ttl does
    /// not reduce it.
    pub(super) longest_ttl: Duration,
    /// A copy of the acquire, or of a reclaim, was never answered and may still be granted: the
    /// store then remembers the release for a while.
    pub(super) unanswered: bool,
    /// The work under the lease has succeeded: its release says so.
    pub(crate) has_succeeded: bool,
    /// The label that others see.
    pub(crate) shown_label: Option<String>,
    /// What the store says about the lease, as far as is known.
    pub(crate) known: Option<Description>,
    /// The failures of renewals since the last renewal that succeeded.
    pub(super) failures: FailureStreak,
    /// The grant was reported to the observers, or the end of the lease was found.
    is_reported: bool,
}

/// A name that was free is taken by one command, which does not say who holds it. If a lease was
/// passed on, the store does not know the new holder. The keeper reports a holder that has had the
/// lease for 100 ms. Most holders have released by then, and each report costs a request.
const TELL_AFTER: Duration = Duration::from_millis(100);

impl Deref for LeaseState {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.attempt
    }
}

impl Borrow<Signal> for LeaseState {
    fn borrow(&self) -> &Signal {
        &self.signal
    }
}

impl LeaseState {
    /// The state of a lease that was granted to an attempt at `now`.
    pub(super) fn new(
        attempt: Arc<Attempt>,
        unanswered: bool,
        Grant { token, described, .. }: Grant,
        signal: Signal,
        now: Instant,
    ) -> Arc<Self> {
        let options = Arc::clone(&attempt.options);
        let known = described.then(|| Description::new(token, Arc::clone(&attempt.request.info)));
        let changing = (options.ttl, unanswered, known);
        Self::of((attempt, token), options, changing, PassedOn::default(), signal, now)
    }

    fn of(
        (attempt, grant_token): (Arc<Attempt>, FencingToken),
        options: Arc<LeaseOptions>,
        (longest_ttl, unanswered, known): (Duration, bool, Option<Description>),
        passed_on: PassedOn,
        signal: Signal,
        now: Instant,
    ) -> Arc<Self> {
        let (guards, ttl, shown_label) = (1, options.ttl, options.label.clone());
        let new = Changing::default();
        let changing = Changing { guards, ttl, longest_ttl, unanswered, shown_label, known, ..new };
        Arc::new(Self {
            attempt,
            options,
            granted_at: now,
            signal,
            passed_on,
            grant_token,
            changing: Mutex::new(changing),
        })
    }

    /// The same lease for the next caller in line. `None` if that one asks for another lease, if
    /// the tokens are used up, or if the ttl was changed since the grant.
    pub(super) fn passed_on(&self, to: &Attempt, now: Instant) -> Option<Arc<Self>> {
        let PassedOn { times, after } = self.passed_on;
        let after = after + now.saturating_since(self.granted_at);
        let passed_on = PassedOn { times: times + 1, after };
        let token = self.grant_token;
        token.passed_on(passed_on.times)?;
        let changing = {
            let before = self.changing.lock();
            if before.ttl != self.options.ttl || to.terms() != self.attempt.terms() {
                return None;
            }
            (before.longest_ttl, before.unanswered, before.known.clone())
        };
        let (attempt, signal) = (Arc::clone(&self.attempt), self.signal.succeeding());
        let options = Arc::clone(&to.options);
        Some(Self::of((attempt, token), options, changing, passed_on, signal, now))
    }

    /// The time at which to report the holder to the store, if the store does not know the holder,
    /// or knows an earlier caller.
    pub(super) fn tell_at(&self) -> Option<Instant> {
        let is_known = self.passed_on.times == 0 && self.changing.lock().known.is_some();
        (!is_known).then(|| self.granted_at + TELL_AFTER)
    }

    /// The token of this guard.
    pub(crate) fn token(&self) -> FencingToken {
        let grant = self.grant_token;
        // The default is unreachable: a lease is passed on only if it has another token.
        grant.passed_on(self.passed_on.times).unwrap_or(grant)
    }

    /// The ttl for which the lease is renewed.
    pub(crate) fn ttl(&self) -> Duration {
        self.changing.lock().ttl
    }

    /// What changes while the lease is held. A caller ends its use in the same statement.
    pub(crate) fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock()
    }

    /// Records that a store may keep the lease for this ttl from now on.
    pub(crate) fn may_last(&self, ttl: Duration) {
        let mut changing = self.changing.lock();
        changing.longest_ttl = changing.longest_ttl.max(ttl);
    }

    /// The request that keeps the lease for `ttl`.
    pub(crate) fn keep(&self, ttl: Duration) -> Keep {
        let known = self.changing.lock().known.clone().map(Box::new);
        Keep::new(self.request.clone(), ttl).with_known(known)
    }

    /// The request that tells the store who has the lease. A time of zero leaves the deadline as it
    /// is: the renewals move it.
    pub(crate) fn describe(&self, description: &Description) -> Keep {
        self.keep(Duration::ZERO).with_description(Some(Box::new(description.clone())))
    }

    /// What the store is told about the lease, with these facts about its client.
    pub(crate) fn description(&self, mut info: Arc<HolderInfo>) -> Description {
        if self.passed_on.times > 0 {
            info = Arc::new(Arc::unwrap_or_clone(info).with_passed_on(self.passed_on));
        }
        Description::new(self.grant_token, info)
    }

    /// The facts about the lease for observers.
    pub(super) fn facts(&self) -> LeaseFacts<'_> {
        let (label, token) = (self.options.label.as_deref(), self.token());
        LeaseFacts { holder: self.id(), name: &self.name, mode: self.request.mode, label, token }
    }

    /// The error of the failed renewals, if the lease ended because of them.
    pub(super) fn cause(&self, reason: LossReason) -> Option<StoreError> {
        let changing = self.changing.lock();
        changing.failures.cause().filter(|_| reason == LossReason::Expired).cloned()
    }

    pub(crate) fn lost(&self, reason: LossReason) -> Error {
        Error::lost(self.name.clone(), self.token(), reason)
    }

    /// Ends one guard if there are others, and returns whether there are.
    pub(super) fn leave_to_others(&self) -> bool {
        let guards = &mut self.changing.lock().guards;
        let has_others = *guards > 1;
        *guards -= usize::from(has_others);
        has_others
    }

    /// Ends one guard, and returns whether that was the last: it takes on the duty to release.
    pub(super) fn end_guard(&self) -> bool {
        let guards = &mut self.changing.lock().guards;
        std::mem::replace(guards, guards.saturating_sub(1)) == 1
    }

    /// Ends all guards: somebody else has the duty to release.
    pub(crate) fn finish(&self) {
        self.changing.lock().guards = 0;
    }

    /// Records that the caller has the lease. The hold counts from `from`: the grant or, with
    /// several names, the last grant.
    pub(crate) fn mark_delivered(&self, from: Instant) {
        self.signal.deliver(from, self.options.max_hold);
    }

    pub(crate) fn is_delivered(&self) -> bool {
        self.signal.delivered().is_some()
    }

    /// Records that the grant was reported or the end was found. Returns whether the other of the
    /// two was before: then the end is to be reported.
    pub(super) fn is_reported_again(&self) -> bool {
        std::mem::replace(&mut self.changing.lock().is_reported, true)
    }

    pub(super) fn release_action(&self, now: Instant) -> Action {
        let min_hold = self.options.min_hold.unwrap_or_default();
        let left = |from| min_hold.saturating_sub(now.saturating_since(from));
        // If no caller ever has the lease (given back, cancelled, one of several names), `min_hold`
        // does not keep the name taken.
        let cooldown = self.signal.delivered().map(left).unwrap_or_default();
        let Changing { unanswered, has_succeeded, known, .. } = &*self.changing.lock();
        let end = EndHold::new(self.request.clone())
            .with_known(known.clone().map(Box::new))
            .with_closes(*unanswered)
            .with_cooldown(cooldown)
            .with_done(self.options.once_per.filter(|_| *has_succeeded).unwrap_or_default() * 2);
        Action::End(end)
    }
}
