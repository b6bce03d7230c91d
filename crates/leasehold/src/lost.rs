//! The loss signal of a lease: the end of the validity, and the tasks to wake when the lease ends.

use std::borrow::Borrow;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::select_all;
use leasehold_core::{BoxFuture, Clock, Instant, LossReason};
use tokio::runtime::Handle;
use tokio::sync::SetOnce;

use crate::background;
use crate::clock::within;
use crate::mutex::Mutex;
use crate::process::MadeIn;
use crate::sync::AtomicU64;

/// The way in which a lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Lost(LossReason),
    /// The holder released the lease, or handed it out as a value.
    Released,
}

impl End {
    pub(crate) fn loss(self) -> Option<LossReason> {
        match self {
            Self::Lost(reason) => Some(reason),
            Self::Released => None,
        }
    }
}

impl From<LossReason> for End {
    fn from(reason: LossReason) -> Self {
        Self::Lost(reason)
    }
}

/// The end of one lease: a part of what its guard, the [`Lost`] futures and the keeper share.
pub(crate) struct Signal {
    made_in: MadeIn,
    clock: Arc<dyn Clock>,
    /// The end of the last grant or renewal, in nanoseconds since the clock's origin.
    renewed_until: AtomicU64,
    /// The start of the hold, and the time at which `max_hold` ends it, once the caller has the
    /// lease.
    delivered: OnceLock<(Instant, Option<Instant>)>,
    ended: SetOnce<End>,
}

impl Signal {
    pub(crate) fn new(clock: Arc<dyn Clock>, until: Instant) -> Self {
        let renewed_until = AtomicU64::new(nanos(until));
        let (delivered, ended) = (OnceLock::new(), SetOnce::new());
        Self { made_in: MadeIn::this(), clock, renewed_until, delivered, ended }
    }

    /// The signal of the next holder, with the same end of validity as this signal.
    pub(crate) fn succeeding(&self) -> Self {
        Self::new(Arc::clone(&self.clock), self.valid_until())
    }

    /// Records that the caller has the lease. The hold counts from `from`: after `max_hold` the
    /// lease ends, for the reason that it was held too long.
    pub(crate) fn deliver(&self, from: Instant, max_hold: Option<Duration>) {
        self.delivered.get_or_init(|| (from, max_hold.map(|span| from + span)));
    }

    /// The start of the hold, once the caller has the lease.
    pub(crate) fn delivered(&self) -> Option<Instant> {
        self.delivered.get().map(|(from, _)| *from)
    }

    fn limit(&self) -> Option<Instant> {
        self.delivered.get()?.1
    }

    /// The end of the time for which the holder may rely on the lease.
    pub(crate) fn valid_until(&self) -> Instant {
        let until = self.renewed_until();
        self.limit().map_or(until, |limit| until.min(limit))
    }

    /// Like [`valid_until`](Self::valid_until), without the limit.
    pub(crate) fn renewed_until(&self) -> Instant {
        Instant::from_origin(Duration::from_nanos(self.renewed_until.load(Ordering::Acquire)))
    }

    /// Moves the end of the lease to a later time, unless the lease has ended: a lost lease stays
    /// lost. Unlike [`check`](Self::check), it never ends a lease and wakes nobody, so callers can
    /// keep mutexes locked.
    pub(crate) fn extend(&self, now: Instant, until: Instant) {
        if !self.is_over(now) {
            self.renewed_until.fetch_max(nanos(until), Ordering::AcqRel);
        }
    }

    /// Whether the lease belongs to a process from which this one was forked. If so, nobody sets or
    /// awaits `ended`: perhaps a thread of that process had its waiters locked at the fork.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.made_in.is_another()
    }

    /// Like [`check_at`](Self::check_at), for the holder: in a forked child, the lease is lost.
    pub(crate) fn check_here(&self, now: Instant) -> Option<End> {
        if self.is_of_parent() { Some(LossReason::Forked.into()) } else { self.check_at(now) }
    }

    /// How the lease has ended, or `None` while it may be relied on. Compares the clock first, so
    /// that a process that was stopped for longer than its lease learns of the loss at its first
    /// call.
    pub(crate) fn check(&self) -> Option<End> {
        self.check_at(self.clock.now())
    }

    /// Like [`check`](Self::check), but at `now`: a guard checks all its leases at the same time.
    pub(crate) fn check_at(&self, now: Instant) -> Option<End> {
        self.overdue(now).map_or_else(|| self.ended.get().copied(), |why| Some(self.end(why)))
    }

    /// Whether the lease has ended at `now`. The call ends nothing and wakes nobody, so callers can
    /// keep mutexes locked.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.overdue(now).is_some() || self.ended.initialized()
    }

    /// The reason for which the lease has run out at `now`, if it has.
    pub(crate) fn overdue(&self, now: Instant) -> Option<LossReason> {
        (now >= self.valid_until()).then(|| {
            let too_long = self.limit().is_some_and(|limit| now >= limit);
            if too_long { LossReason::HeldTooLong } else { LossReason::Expired }
        })
    }

    /// Ends the lease, unless it has ended already, and returns how it ended.
    pub(crate) fn end(&self, end: impl Into<End>) -> End {
        let end = end.into();
        // It fails if the lease has ended before.
        let _ = self.ended.set(end);
        self.ended.get().copied().unwrap_or(end)
    }

    /// Ends the lease at `now` by a release, unless it has ended already, and returns how it ended.
    pub(crate) fn release_at(&self, now: Instant) -> End {
        self.end(self.overdue(now).map_or(End::Released, End::Lost))
    }
}

/// A point in time for an atomic, in nanoseconds since the clock's origin.
pub(crate) fn nanos(at: Instant) -> u64 {
    u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX)
}

debug_as!(Signal => |it, f| f.debug_tuple("Signal").field(&it.valid_until()).finish());

/// The loss signal of a [`Guard`](crate::Guard): `Some` with the reason once the lease is lost, and
/// `None` once it was released or handed out. So a task that watches the signal ends with the
/// guard.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let client = leasehold::Client::memory();
/// let guard = client.mutex("import").acquire().await?;
/// let lost = guard.lost(); // owned: it goes where the guard does not
/// let watcher = tokio::spawn(async move {
///     if let Some(reason) = lost.await {
///         eprintln!("stop: {reason}");
///     }
/// });
/// guard.release().await?;
/// watcher.await.expect("it ends with the guard");
/// # Ok(())
/// # }
/// ```
///
/// In a `select!` together with the work, match the pattern `Some(reason) = guard.lost() => …`, so
/// that only a loss ends the work. With several names, the signal completes as soon as one lease
/// ends. Every poll checks the clock first, and a timer wakes the future when the validity is over.
/// Outside of a tokio runtime there are no timers, so there only the keeper wakes the future. A
/// clone waits independently. Neither the clone nor the original keeps the lease alive.
///
/// # Cancel safety
///
/// The future can be dropped at any time; [`Guard::lost`](crate::Guard::lost) returns another one.
#[must_use = "futures do nothing unless polled"]
pub struct Lost {
    /// The leases of all names of the guard. The future completes as soon as one of them ends.
    leases: Arc<[Signalled]>,
    /// The wait of this future, once it was polled. The mutex is never locked: it is there to make
    /// the future [`Sync`].
    waiting: Mutex<Option<BoxFuture<'static, ()>>>,
}

debug_as!(Lost => |_, f| f.write_str("Lost { .. }"));

/// What has a signal: the state of a lease.
pub(crate) type Signalled = Arc<dyn Borrow<Signal> + Send + Sync>;

impl Lost {
    pub(crate) fn new(leases: impl IntoIterator<Item = Signalled>) -> Self {
        Self { leases: leases.into_iter().collect(), waiting: Mutex::default() }
    }

    /// Like [`Guard::loss`](crate::Guard::loss), for language bindings, whose guard may be in use
    /// by another call.
    #[doc(hidden)]
    pub fn loss(&self) -> Option<LossReason> {
        ended(&self.leases).and_then(End::loss)
    }

    /// Like [`Guard::validity`](crate::Guard::validity), for language bindings.
    #[doc(hidden)]
    pub fn validity(&self) -> Duration {
        if ended(&self.leases).is_some() {
            return Duration::ZERO;
        }
        let left = |it: &Signal| it.valid_until().saturating_since(it.clock.now());
        signals(&self.leases).map(left).min().unwrap_or_default()
    }

    /// Like [`Guard::on_lost`](crate::Guard::on_lost), for language bindings; `call` must not
    /// panic.
    #[doc(hidden)]
    pub fn call_back(self, call: impl FnOnce(LossReason) + Send + 'static) {
        let Some(clock) = signals(&self.leases).next().map(|it| Arc::clone(&it.clock)) else {
            return;
        };
        let calling = async move {
            if let Some(reason) = self.await {
                call(reason);
            }
        };
        // The callback has a separate task, so that the code that finds the loss holds no mutex
        // that the callback might want. If the background thread cannot be started, there is no
        // keeper either, and so no lease.
        let _ = background::spawn(&*clock, Box::pin(calling));
    }
}

fn signals(leases: &[Signalled]) -> impl Iterator<Item = &Signal> {
    leases.iter().map(|lease| (**lease).borrow())
}

/// How a lease ended, or `None`. A loss counts, even if the leases of other names were released.
fn ended(leases: &[Signalled]) -> Option<End> {
    let ends = signals(leases).filter_map(|it| it.check_here(it.clock.now()));
    ends.reduce(|one, other| if one.loss().is_some() { one } else { other })
}

/// Waits until one of the leases has ended: by a signal, or because nobody has renewed it.
async fn until_ended(leases: Arc<[Signalled]>) {
    while ended(&leases).is_none()
        && let Some(first) = signals(&leases).min_by_key(|it| it.valid_until())
    {
        let has_timers = first.clock.is_driven_by_caller() || Handle::try_current().is_ok();
        let until = has_timers.then(|| first.valid_until());
        let ends = select_all(signals(&leases).map(|it| Box::pin(it.ended.wait())));
        within(&*first.clock, until, ends).await;
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self { leases: Arc::clone(&self.leases), waiting: Mutex::default() }
    }
}

impl Future for Lost {
    type Output = Option<LossReason>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { leases, waiting } = &mut *self;
        if ended(leases).is_none() {
            let waiting = waiting.get_mut();
            let waiting = waiting.get_or_insert_with(|| Box::pin(until_ended(Arc::clone(leases))));
            ready!(waiting.as_mut().poll(context));
        }
        Poll::Ready(ended(leases).and_then(End::loss))
    }
}

impl Drop for Lost {
    /// In a forked child, the wait belongs to the parent's runtime, and is left alone.
    fn drop(&mut self) {
        if signals(&self.leases).any(Signal::is_of_parent) {
            std::mem::forget((Arc::clone(&self.leases), self.waiting.get_mut().take()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use leasehold_core::FakeClock;

    const LEASE: Duration = Duration::from_secs(10);

    fn held(clock: &FakeClock) -> Arc<Signal> {
        Arc::new(Signal::new(Arc::new(clock.clone()), clock.now() + LEASE))
    }

    fn poll(lost: &mut Lost) -> Poll<Option<LossReason>> {
        Pin::new(lost).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_first_question_after_a_long_stop_is_answered_lost() {
        let clock = FakeClock::new();
        let signal = held(&clock);
        let mut lost = Lost::new([Arc::clone(&signal) as _]);
        assert!(poll(&mut lost).is_pending());
        clock.advance(LEASE);
        assert_eq!(poll(&mut lost), Poll::Ready(Some(LossReason::Expired)));
    }

    #[test]
    fn a_lease_that_is_not_renewed_is_lost_exactly_at_the_end_of_its_validity() {
        let clock = FakeClock::new();
        let (signal, end) = (held(&clock), clock.now() + LEASE);
        clock.advance(LEASE - Duration::from_nanos(1));
        assert_eq!(signal.check(), None);
        assert_eq!(signal.check_at(end), Some(End::Lost(LossReason::Expired)));
    }

    #[test]
    fn an_answer_that_was_overtaken_shortens_nothing() {
        let clock = FakeClock::new();
        let signal = held(&clock);
        signal.extend(clock.now(), clock.now() + LEASE / 2);
        assert_eq!(signal.valid_until(), clock.now() + LEASE);
    }

    #[test]
    fn max_hold_ends_a_healthy_lease() {
        let clock = FakeClock::new();
        let (signal, limit) = (held(&clock), clock.now() + 2 * LEASE);
        signal.deliver(clock.now(), Some(2 * LEASE));
        signal.extend(clock.now(), limit + LEASE);
        assert_eq!((signal.valid_until(), signal.check()), (limit, None));
        assert_eq!(signal.check_at(limit), Some(End::Lost(LossReason::HeldTooLong)));
    }

    #[test]
    fn what_is_released_after_its_time_was_lost() {
        let clock = FakeClock::new();
        let [in_time, late] = [held(&clock), held(&clock)];
        assert_eq!(in_time.release_at(clock.now()), End::Released);
        clock.advance(LEASE);
        assert_eq!(in_time.check(), Some(End::Released));
        assert_eq!(late.release_at(clock.now()), End::Lost(LossReason::Expired));
    }

    #[test]
    fn what_is_lost_is_not_revived_by_a_late_renewal_and_a_check_wakes_its_watchers() {
        let (clock, woken) = (FakeClock::new(), Arc::new(Woken::default()));
        let signal = held(&clock);
        let (waker, mut lost) =
            (Waker::from(Arc::clone(&woken)), Lost::new([Arc::clone(&signal) as _]));
        assert!(Pin::new(&mut lost).poll(&mut Context::from_waker(&waker)).is_pending());
        clock.advance(LEASE);
        let by_its_timer = woken.0.load(Ordering::Relaxed);
        signal.extend(clock.now(), clock.now() + LEASE);
        assert_eq!(woken.0.load(Ordering::Relaxed), by_its_timer);
        assert_eq!(signal.check(), Some(End::Lost(LossReason::Expired)));
        assert_eq!(woken.0.load(Ordering::Relaxed), by_its_timer + 1);
    }

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_loss_is_noticed_by_its_own_clock_although_nobody_looks() {
        let clock = FakeClock::new();
        let signal = held(&clock);
        let lost = tokio::spawn(Lost::new([Arc::clone(&signal) as _]));
        tokio::task::yield_now().await;
        clock.advance(LEASE / 2);
        signal.extend(clock.now(), clock.now() + LEASE);
        clock.advance(LEASE / 2);
        tokio::task::yield_now().await;
        assert!(!lost.is_finished(), "it was prolonged");
        clock.advance(LEASE / 2);
        assert_eq!(lost.await.unwrap(), Some(LossReason::Expired));
    }
}
