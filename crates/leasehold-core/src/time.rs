//! Time without a clock of our own: the trait [`Clock`], its [`Instant`], and a clock for tests.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A future that its poller owns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A point in time of one [`Clock`]: the span since the origin of that clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(Duration);

impl Instant {
    /// The instant `span` after the clock's origin.
    pub const fn from_origin(span: Duration) -> Self {
        Self(span)
    }

    /// The span since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `span` before this one, or the origin.
    pub fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

/// The clock and the timers of a client.
///
/// A clock must count the time for which the machine was suspended, and its rate must stay within
/// the configured drift of the store's clock. Steps of the wall clock must not move it.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time now.
    fn now(&self) -> Instant;

    /// Microseconds since 1970 by the wall clock. Only tokens of stores without a server use the
    /// wall clock; validity, deadlines and the order of waiters do not.
    fn wall_us(&self) -> u64;

    /// A timer that ends at `at`, never before it.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;

    /// Whether the caller's own runtime drives the keeper, as with a clock that stands still until
    /// a test moves it. False for the system's clock: the keeper then has its own thread.
    fn is_driven_by_caller(&self) -> bool {
        false
    }
}

/// Server time of one store: microseconds on the lease clock, by which leases end, and on the token
/// clock, from which tokens are minted. A Redis server has one clock for both; a file store needs
/// two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// The time of the clock by which leases end.
    pub lease_us: u64,
    /// The time of the clock from which tokens are minted, since 1970.
    pub token_us: u64,
}

impl Now {
    /// Server time of a store without a server, on this clock.
    pub fn of(clock: &(impl Clock + ?Sized)) -> Self {
        Self { lease_us: micros(clock.now().since_origin()), token_us: clock.wall_us() }
    }
}

/// Whole microseconds of a span; [`u64::MAX`] for a span of more than half a million years.
pub const fn micros(span: Duration) -> u64 {
    let micros = span.as_micros();
    if micros < u64::MAX as u128 { micros as u64 } else { u64::MAX }
}

/// A clock that stands still until a test moves it. Clones show the same time.
#[derive(Clone, Default)]
pub struct FakeClock {
    state: Arc<Mutex<FakeTime>>,
}

#[derive(Default)]
struct FakeTime {
    now: Instant,
    wall_offset_us: i64,
    next_sleeper: u64,
    sleepers: BTreeMap<(Instant, u64), Waker>,
}

/// 2026-01-01T00:00Z: a fake wall clock starts after the token epoch, as a real one does.
const FAKE_WALL_START_US: u64 = 1_767_225_600_000_000;

impl FakeClock {
    /// A clock that shows its origin, with the wall clock at 2026-01-01.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the time forward, and wakes the timers that have ended.
    pub fn advance(&self, span: Duration) {
        let woken = {
            let mut time = self.time();
            time.now = time.now + span;
            let after = (time.now, u64::MAX);
            let later = time.sleepers.split_off(&after);
            std::mem::replace(&mut time.sleepers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Steps the wall clock without moving time, as an administrator or NTP does.
    pub fn step_wall(&self, micros: i64) {
        self.time().wall_offset_us += micros;
    }

    /// The time at which the next timer ends, if one is set: a simulation can jump to that time.
    pub fn next_timer(&self) -> Option<Instant> {
        self.time().sleepers.first_key_value().map(|((at, _), _)| *at)
    }

    fn time(&self) -> MutexGuard<'_, FakeTime> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClock").field("now", &self.time().now).finish_non_exhaustive()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        self.time().now
    }

    fn wall_us(&self) -> u64 {
        let time = self.time();
        (FAKE_WALL_START_US + micros(time.now.0)).saturating_add_signed(time.wall_offset_us)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let id = {
            let mut time = self.time();
            time.next_sleeper += 1;
            time.next_sleeper
        };
        Box::pin(FakeSleep { clock: self.clone(), at, id })
    }

    fn is_driven_by_caller(&self) -> bool {
        true
    }
}

struct FakeSleep {
    clock: FakeClock,
    at: Instant,
    id: u64,
}

impl Future for FakeSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut time = self.clock.time();
        if time.now >= self.at {
            return Poll::Ready(());
        }
        time.sleepers.insert((self.at, self.id), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for FakeSleep {
    fn drop(&mut self) {
        self.clock.time().sleepers.remove(&(self.at, self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    fn is_over(sleep: &mut BoxFuture<'static, ()>) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_fake_timer_ends_when_its_instant_is_reached_and_not_before() {
        let clock = FakeClock::new();
        let mut sleep = clock.sleep_until(clock.now() + Duration::from_secs(2));
        assert!(!is_over(&mut sleep));
        clock.advance(Duration::from_micros(1_999_999));
        assert!(!is_over(&mut sleep));
        clock.advance(Duration::from_micros(1));
        assert!(is_over(&mut sleep));
    }

    /// A waker that counts its wakes.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn all_timers_of_one_instant_are_woken() {
        let (clock, woken) = (FakeClock::new(), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let at = clock.now() + Duration::from_secs(1);
        let mut sleeps = [clock.sleep_until(at), clock.sleep_until(at)];
        for sleep in &mut sleeps {
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        clock.advance(Duration::from_secs(1));
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_fake_clock_is_advanced_by_its_caller_who_drives_what_waits_for_it() {
        let clock = FakeClock::new();
        clock.advance(Duration::from_secs(7));
        assert_eq!(clock.now(), Instant::from_origin(Duration::from_secs(7)));
        assert_eq!(clock.wall_us(), FAKE_WALL_START_US + 7_000_000);
        assert!(clock.is_driven_by_caller());
        assert_eq!(format!("{clock:?}"), "FakeClock { now: Instant(7s), .. }");
    }

    #[test]
    fn a_clock_that_says_nothing_of_it_is_not_driven_by_its_caller() {
        #[derive(Debug)]
        struct Stopped;

        impl Clock for Stopped {
            fn now(&self) -> Instant {
                Instant::default()
            }

            fn wall_us(&self) -> u64 {
                0
            }

            fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
                Box::pin(std::future::pending())
            }
        }

        assert!(!Stopped.is_driven_by_caller());
    }

    #[test]
    fn a_dropped_timer_leaves_nothing_behind() {
        let clock = FakeClock::new();
        let mut sleep = clock.sleep_until(clock.now() + Duration::from_secs(2));
        assert!(!is_over(&mut sleep));
        assert_eq!(clock.next_timer(), Some(Instant::from_origin(Duration::from_secs(2))));
        drop(sleep);
        assert_eq!(clock.next_timer(), None);
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_no_instant() {
        let clock = FakeClock::new();
        let (now, wall) = (clock.now(), clock.wall_us());
        clock.step_wall(-5_000_000);
        assert_eq!(clock.now(), now);
        assert_eq!(clock.wall_us(), wall - 5_000_000);
    }
}
