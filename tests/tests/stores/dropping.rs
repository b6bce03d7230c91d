//! Futures that are dropped at every point, guards that are dropped in awkward places, and one
//! client in several runtimes: nothing is left behind, nothing panics, nothing blocks.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use leasehold::store::Memory;
use leasehold::time::FakeClock;
use leasehold::{Client, Guard, LockName};
use leasehold_testkit::{Faults, Faulty, RedisServer, SharedStore, Subject, must};
use tokio::runtime::{Builder, Runtime};

/// No acquire of these tests is polled more often before it is granted.
const MOST_POLLS: u32 = 40;

/// How long a request to the slow store takes at most, each way.
const DELAY: Duration = Duration::from_millis(4);

/// How soon a lock must be free after an acquire was dropped: a few requests. It must not depend on
/// the end of a lease or of a claim.
const SOON: Duration = Duration::from_millis(400);

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A store in memory behind a slow network, and a name.
async fn slow_store(seed: u64) -> (Subject, Faulty, LockName) {
    let clock = FakeClock::new();
    let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
    let faults = Faults { delay: DELAY, timeout: 10 * DELAY, ..Faults::default() };
    let network = Faulty::new(subject.store(), clock, faults, seed);
    let name = subject.fresh_name("dropping");
    (subject, network, name)
}

async fn is_soon_free(subject: &Subject, other: &Client, name: &LockName) -> bool {
    for _ in 0..SOON.as_millis() / 10 {
        subject.pass(Duration::from_millis(10)).await;
        let status = must(subject.drive(other.admin().inspect(name)).await);
        if status.holders.is_empty() && status.waiting == 0 {
            return true;
        }
    }
    false
}

/// Polls a future this many times, and drops it. The guard of another is dropped before the poll
/// with this number.
async fn drop_after<T>(
    polls: u32,
    subject: &Subject,
    future: impl Future<Output = T>,
    (mut guard, held_for): (Option<Guard>, u32),
) -> Option<T> {
    let mut future = Box::pin(future);
    for poll in 0..polls {
        if poll == held_for {
            drop(guard.take());
        }
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return Some(output);
        }
        subject.pass(Duration::from_millis(2)).await;
    }
    None
}

/// Drops an acquire after this many polls; the lock is held at first, until `held_for` polls.
async fn drop_acquire_after(polls: u32, held_for: u32) -> bool {
    let (subject, network, name) = slow_store(u64::from(polls * 100 + held_for)).await;
    let (client, other) = (subject.client_of(network).await, subject.client().await);
    let guard = match held_for {
        0 => None,
        _ => Some(must(subject.drive(other.mutex(&name).acquire()).await)),
    };
    let lock = client.mutex(&name);
    let was_granted = drop_after(polls, &subject, lock.acquire(), (guard, held_for)).await;
    let was_granted = was_granted.map(must).is_some();
    assert!(
        is_soon_free(&subject, &other, &name).await,
        "dropped after {polls} polls, let go after {held_for}: something was left behind"
    );
    was_granted
}

#[tokio::test]
async fn an_acquire_that_is_dropped_at_any_point_leaves_nothing_behind() {
    for held_for in [0, 1, 2, 3, 4, 5, 6, 8, 10, 12] {
        let mut granted = 0;
        for polls in 0..MOST_POLLS {
            granted += u32::from(drop_acquire_after(polls, held_for).await);
        }
        assert!(granted > 0, "the sweep has come to the end of the acquire");
    }
}

/// The lease is then unchanged, or has ended: it never has an unknown holder.
#[tokio::test]
async fn an_adoption_that_is_dropped_at_any_point_leaves_the_lease_as_it_was_or_ends_it() {
    let (mut was_left, mut has_ended) = (0, 0);
    for polls in 0..MOST_POLLS {
        let (subject, network, name) = slow_store(u64::from(polls)).await;
        let (client, other) = (subject.client_of(network).await, subject.client().await);
        let guard = must(subject.drive(other.mutex(&name).acquire()).await);
        let lease = must(guard.into_lease());
        drop(drop_after(polls, &subject, client.adopt(lease.clone()), (None, 0)).await);
        subject.pass(SOON).await;
        match subject.drive(other.adopt(lease)).await {
            Ok(guard) => {
                was_left += 1;
                must(subject.drive(guard.release()).await);
            }
            Err(_) => has_ended += 1,
        }
        assert!(is_soon_free(&subject, &other, &name).await, "dropped after {polls} polls");
    }
    assert!(was_left > 0 && has_ended > 0, "{was_left} and {has_ended}");
}

#[tokio::test]
async fn several_names_that_are_dropped_at_any_point_leave_nothing_behind() {
    for polls in 0..2 * MOST_POLLS {
        for held_for in [0, 3, 12] {
            let (subject, network, busy) = slow_store(u64::from(polls * 100 + held_for)).await;
            let (client, other) = (subject.client_of(network).await, subject.client().await);
            let names = [subject.fresh_name("a"), busy, subject.fresh_name("z")];
            let guard = match held_for {
                0 => None,
                _ => Some(must(subject.drive(other.mutex(&names[1]).acquire()).await)),
            };
            let lock = client.multi(&names);
            drop(drop_after(polls, &subject, lock.acquire(), (guard, held_for)).await);
            for name in &names {
                assert!(is_soon_free(&subject, &other, name).await, "dropped after {polls} polls");
            }
        }
    }
}

#[tokio::test]
async fn a_release_or_a_try_that_is_dropped_at_any_point_leaves_nothing_behind() {
    for polls in 0..MOST_POLLS {
        let (subject, network, name) = slow_store(u64::from(polls)).await;
        let (client, other) = (subject.client_of(network).await, subject.client().await);
        let lock = client.mutex(&name);
        for releases in [false, true] {
            let future: Pin<Box<dyn Future<Output = ()>>> = match releases {
                true => {
                    let guard = must(subject.drive(lock.acquire()).await);
                    Box::pin(async move { must(guard.release().await) })
                }
                false => Box::pin(async { drop(must(lock.try_acquire().await)) }),
            };
            drop_after(polls, &subject, future, (None, 0)).await;
            assert!(is_soon_free(&subject, &other, &name).await, "dropped after {polls} polls");
        }
    }
}

#[tokio::test]
async fn what_is_dropped_while_the_store_cannot_be_reached_is_given_back_once_it_can() {
    for waits in [false, true] {
        let (subject, network, name) = slow_store(1).await;
        let (client, other) = (subject.client_of(network.clone()).await, subject.client().await);
        let lock = client.mutex(&name);
        let outage = Duration::from_secs(4);
        if waits {
            let guard = must(subject.drive(other.mutex(&name).acquire()).await);
            let mut acquire = Box::pin(lock.acquire());
            for _ in 0..MOST_POLLS {
                assert!(poll_once(acquire.as_mut()).is_pending());
                subject.pass(Duration::from_millis(2)).await;
            }
            network.cut(outage);
            drop(acquire);
            drop(guard);
        } else {
            let guard = must(subject.drive(lock.acquire()).await);
            network.cut(outage);
            drop(guard);
        }
        subject.pass(outage + Duration::from_secs(1)).await;
        assert!(is_soon_free(&subject, &other, &name).await, "a waiter's: {waits}");
    }
}

fn runtime() -> Runtime {
    must(Builder::new_current_thread().enable_all().build())
}

/// A guard of a lock whose lease lasts for half a minute, in real time.
fn guard_of(client: &Client, runtime: &Runtime) -> Guard {
    must(runtime.block_on(client.mutex("awkward").acquire()))
}

/// Another client gets the lock long before the lease would have ended.
fn is_given_back(client: &Client) {
    let limit = Duration::from_secs(10);
    let runtime = runtime();
    let lock = client.mutex("awkward");
    let guard = must(runtime.block_on(lock.acquire_within(limit)));
    must(runtime.block_on(guard.release()));
}

#[test]
fn a_guard_that_is_dropped_outside_of_a_runtime_is_given_back() {
    let client = Client::memory();
    let runtime = runtime();
    drop(guard_of(&client, &runtime));
    is_given_back(&client);
}

#[test]
fn a_guard_that_is_dropped_during_unwinding_is_given_back() {
    let client = Client::memory();
    let runtime = runtime();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = guard_of(&client, &runtime);
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    is_given_back(&client);
}

#[test]
fn a_guard_that_outlives_its_runtime_keeps_its_lease_and_is_given_back() {
    let client = Client::memory();
    let runtime = runtime();
    let guard = guard_of(&client, &runtime);
    drop(runtime);
    must(guard.ensure_held());
    let started = Instant::now();
    drop(guard);
    assert!(started.elapsed() < Duration::from_secs(5), "dropping does not block");
    is_given_back(&client);
}

#[test]
fn a_guard_that_outlives_its_runtime_is_renewed() {
    let client = Client::memory();
    let runtime = runtime();
    let ttl = Duration::from_secs(1);
    let guard = must(runtime.block_on(client.mutex("awkward").ttl(ttl).acquire()));
    drop(runtime);
    let mut least = guard.validity();
    while guard.validity() <= least {
        must(guard.ensure_held());
        least = guard.validity();
        std::thread::sleep(ttl / 100);
    }
}

#[test]
fn a_guard_that_is_dropped_in_a_task_of_a_runtime_that_ends_is_given_back() {
    let client = Client::memory();
    let runtime = runtime();
    let (lock, (sender, receiver)) = (client.mutex("awkward"), std::sync::mpsc::channel());
    runtime.spawn(async move {
        let _guard = must(lock.acquire().await);
        must(sender.send(()));
        std::future::pending::<()>().await;
    });
    runtime.block_on(async {
        while receiver.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime);
    is_given_back(&client);
}

#[test]
fn a_guard_that_outlives_its_client_is_given_back() {
    let store = SharedStore::new(Memory::new());
    let runtime = runtime();
    let client = Client::builder().store(store.clone());
    let client = must(runtime.block_on(client.build()));
    let guard = guard_of(&client, &runtime);
    drop(client);
    drop(guard);
    let other = must(runtime.block_on(Client::builder().store(store).build()));
    is_given_back(&other);
}

/// One client that lives as long as the process, as in many programs.
#[test]
fn one_static_client_works_in_several_runtimes_one_after_another() {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let server = must(RedisServer::start());
    let started = runtime();
    must(CLIENT.set(must(started.block_on(Client::connect(&server.patient_url())))));
    drop(started);
    let Some(client) = CLIENT.get() else { panic!("it was set") };
    let mut last = None;
    for _ in 0..3 {
        let runtime = runtime();
        let lock = client.mutex("static");
        let guard = must(runtime.block_on(lock.acquire_within(Duration::from_secs(20))));
        assert!(Some(guard.token()) > last);
        let waits = lock.clone();
        let waiting = runtime.spawn(async move { waits.acquire().await });
        runtime.block_on(tokio::task::yield_now());
        must(runtime.block_on(guard.release()));
        let guard = must(must(runtime.block_on(waiting)));
        last = Some(guard.token());
        drop(runtime);
        drop(guard);
    }
}
