//! The verbs of the library, on the memory store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::blocking::wait;
use leasehold::event::Event;
use leasehold::lease::Renewal;
use leasehold::{Client, Error, LossReason};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_mutex_is_held_by_one_and_handed_over_by_its_release() {
    // Each caller asks the store.
    let client = Client::builder().url("memory:").slice(Duration::ZERO).build().await.unwrap();
    let first = client.mutex("a").acquire().await.unwrap();
    assert!(client.mutex("a").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.mutex("a").acquire().await }
    });
    while client.admin().inspect(first.name()).await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let token = first.token();
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    assert!(second.token() > token);
    assert!(second.is_held());
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_dropped_guard_lets_go() {
    let client = Client::memory();
    drop(client.mutex("a").acquire().await.unwrap());
    let guard = client.mutex("a").acquire_within(SOON).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_wait_that_ends_says_who_holds_the_lock() {
    let client = Client::memory();
    let _held = client.mutex("a").label("nightly").acquire().await.unwrap();
    let error = client.mutex("a").acquire_within(Duration::from_millis(20)).await.unwrap_err();
    let Error::Timeout { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
    assert_eq!(holder.info.label.as_deref(), Some("nightly"));
    assert_eq!(holder.info.pid, std::process::id());
}

#[tokio::test]
async fn readers_share_and_a_writer_waits_for_them() {
    let client = Client::memory();
    let catalogue = client.rwlock("catalogue");
    let one = catalogue.read().acquire().await.unwrap();
    let two = catalogue.read().acquire().await.unwrap();
    assert!(catalogue.write().try_acquire().await.unwrap().is_none());
    one.release().await.unwrap();
    two.release().await.unwrap();
    assert!(catalogue.write().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn permits_are_limited_by_the_capacity() {
    let client = Client::memory();
    let gpu = client.semaphore("gpu", 3);
    let two = gpu.permits(2).acquire().await.unwrap();
    let one = gpu.permit().acquire().await.unwrap();
    assert!(gpu.permit().try_acquire().await.unwrap().is_none());
    two.release().await.unwrap();
    assert!(gpu.permits(2).try_acquire().await.unwrap().is_some());
    one.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_ends_with_the_last_of_its_guards() {
    let client = Client::memory();
    let outer = client.mutex("a").acquire().await.unwrap();
    let inner = outer.reenter().unwrap();
    assert_eq!(outer.token(), inner.token());
    inner.release().await.unwrap();
    assert!(client.mutex("a").try_acquire().await.unwrap().is_none());
    outer.release().await.unwrap();
    assert!(client.mutex("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_lease_travels_as_text_and_is_adopted() {
    let store = leasehold::store::Memory::new();
    let [here, there] = [store.clone(), store].map(|store| Client::builder().store(store).build());
    let (here, there) = (here.await.unwrap(), there.await.unwrap());
    let guard = here.mutex("a").acquire().await.unwrap();
    let text = guard.into_lease().unwrap().to_string();
    let adopted = there.adopt(text.parse().unwrap()).await.unwrap();
    assert!(here.mutex("a").try_acquire().await.unwrap().is_none());
    adopted.release().await.unwrap();
    assert!(here.mutex("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn an_adopted_lease_is_reported_as_granted_and_as_released() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let observe = move |event: &Event<'_>| {
        seen.lock().unwrap().push(match event {
            Event::Granted { .. } => "granted",
            Event::Released { .. } => "released",
            // The inbox may open meanwhile; leases are renewed soon after that.
            Event::RoundTrip { .. } | Event::Renewed { .. } => return,
            _ => "else",
        });
    };
    let store = leasehold::store::Memory::new();
    let here = Client::builder().store(store.clone()).build().await.unwrap();
    let there = Client::builder().store(store).observer(observe).build().await.unwrap();
    let lease = here.mutex("a").acquire().await.unwrap().into_lease().unwrap();
    there.adopt(lease).await.unwrap().release().await.unwrap();
    assert_eq!(*events.lock().unwrap(), ["granted", "released"]);
}

#[tokio::test]
async fn a_revoked_holder_is_told_and_the_next_one_is_not_hit() {
    let client = Client::memory();
    let guard = client.mutex("a").acquire().await.unwrap();
    let (name, token) = (guard.name().clone(), guard.token());
    assert!(client.admin().revoke(&name, token).await.unwrap());
    assert_eq!(guard.lost().await, Some(LossReason::Revoked));
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    let next = client.mutex("a").acquire_within(SOON).await.unwrap();
    assert!(!client.admin().revoke(&name, token).await.unwrap());
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_lost_after_its_ttl() {
    let client = Client::memory();
    let lock = client.mutex("a").ttl(Duration::from_millis(100)).renewal(Renewal::Off);
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.lost().await, Some(LossReason::Expired));
    assert!(!guard.is_held());
}

#[tokio::test]
async fn max_hold_ends_a_lease_that_is_renewed() {
    let client = Client::memory();
    // Long enough that it is renewed until then, even on a busy machine.
    let lock = client.mutex("a").ttl(Duration::from_secs(2));
    let guard = lock.max_hold(Duration::from_secs(3)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, Some(LossReason::HeldTooLong));
}

#[tokio::test]
async fn run_returns_the_value_of_work_that_ended_in_time_and_drops_work_that_did_not() {
    let client = Client::memory();
    let lock = client.mutex("a").ttl(Duration::from_millis(100)).renewal(Renewal::Off);
    let done = lock.run(async |_| Ok::<_, Error>(7)).await;
    assert_eq!(done.unwrap(), 7);
    let error = lock
        .run(async |_| {
            std::future::pending::<()>().await;
            Ok::<_, Error>(())
        })
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
}

#[tokio::test]
async fn closing_gives_everything_back_and_ends_waiters() {
    let store = leasehold::store::Memory::new();
    let client = Client::builder().store(store.clone()).build().await.unwrap();
    let other = Client::builder().store(store).build().await.unwrap();
    let guard = client.mutex("a").acquire().await.unwrap();
    let held = other.mutex("b").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.mutex("b").acquire().await }
    });
    while other.admin().inspect(held.name()).await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    client.close().await.unwrap();
    assert!(matches!(waiter.await.unwrap(), Err(Error::Closed)));
    assert!(!guard.is_held());
    assert!(other.mutex("a").try_acquire().await.unwrap().is_some());
    while other.admin().inspect(held.name()).await.unwrap().waiting > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_wrong_name_or_option_is_reported_by_the_verb() {
    let client = Client::memory();
    for lock in [
        client.mutex(""),
        client.mutex("a\nb"),
        client.mutex("a").ttl(Duration::ZERO),
        client.semaphore("a", 2).permits(3),
    ] {
        assert!(matches!(lock.try_acquire().await, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn another_kind_of_lock_on_a_used_name_is_an_error_and_changes_nothing() {
    let client = Client::memory();
    let held = client.mutex("a").acquire().await.unwrap();
    let error = client.semaphore("a", 2).permit().acquire().await.unwrap_err();
    assert!(matches!(&error, Error::Store(error)
        if error.kind() == leasehold::error::StoreErrorKind::Mismatch));
    assert!(held.is_held());
    assert_eq!(client.admin().inspect(held.name()).await.unwrap().waiting, 0);
}

#[test]
fn a_thread_without_a_runtime_waits_for_each_call() {
    let client = wait(Client::builder().url("memory:").slice(Duration::ZERO).build()).unwrap();
    let guard = wait(client.mutex("a").acquire()).unwrap();
    assert!(wait(client.mutex("a").try_acquire()).unwrap().is_none());
    let waiter = std::thread::spawn({
        let client = client.clone();
        move || wait(client.mutex("a").acquire_within(SOON))
    });
    while wait(client.admin().inspect(guard.name())).unwrap().waiting == 0 {
        std::thread::yield_now();
    }
    wait(guard.release()).unwrap();
    wait(waiter.join().unwrap().unwrap().release()).unwrap();
    wait(client.close()).unwrap();
}

#[tokio::test]
async fn a_blocking_call_inside_a_runtime_is_refused() {
    let client = Client::memory();
    assert!(matches!(wait(client.mutex("a").acquire()), Err(Error::Invalid(_))));
}

/// A value that is read, and written later, without any protection.
#[derive(Default)]
struct Unprotected {
    count: AtomicU64,
    newest: AtomicU64,
}

impl Unprotected {
    fn read(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn write(&self, count: u64, token: leasehold::FencingToken) {
        self.count.store(count, Ordering::Relaxed);
        let before = self.newest.swap(token.get(), Ordering::Relaxed);
        assert!(before < token.get(), "tokens grow in the order of entry");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_tasks_lose_no_update_in_memory() {
    let (client, data) = (Client::memory(), Arc::new(Unprotected::default()));
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (client, data) = (client.clone(), Arc::clone(&data));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = client.mutex("a").acquire().await.unwrap();
                    let count = data.read();
                    tokio::task::yield_now().await;
                    data.write(count + 1, guard.token());
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(data.read(), 1000);
}

#[test]
fn two_hundred_threads_lose_no_update_in_memory() {
    let (client, data) = (Client::memory(), Unprotected::default());
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let guard = wait(client.mutex("a").acquire()).unwrap();
                    let count = data.read();
                    std::thread::yield_now();
                    data.write(count + 1, guard.token());
                    wait(guard.release()).unwrap();
                }
            });
        }
    });
    assert_eq!(data.read(), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_guards_that_are_released_at_once_one_lets_go_now() {
    let client = Client::memory();
    for round in 0..2000 {
        let one = client.mutex("a").acquire().await.unwrap();
        let other = one.reenter().unwrap();
        let name = one.name().clone();
        let both = [one, other].map(|guard| tokio::spawn(guard.release()));
        for released in both {
            released.await.unwrap().unwrap();
        }
        assert!(client.admin().inspect(&name).await.unwrap().is_free(), "round {round}");
    }
}

#[tokio::test]
async fn who_waits_for_another_capacity_is_told_why_and_served_once_it_is_set() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let observe = {
        let told = Arc::clone(&told);
        move |event: &Event<'_>| {
            if let Event::Waiting { cause: Some(cause), .. } = *event {
                told.lock().unwrap().push(cause.to_string());
            }
        }
    };
    let builder = Client::builder().store(leasehold::store::Memory::new()).observer(observe);
    let client = builder.build().await.unwrap();
    let held = client.semaphore("gpu", 4).permit().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.semaphore("gpu", 8).permit().acquire().await }
    });
    while client.admin().inspect(held.name()).await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    held.release().await.unwrap();
    assert!(waiter.await.unwrap().unwrap().is_held());
    let told = told.lock().unwrap().clone();
    let [text] = &told[..] else { panic!("{told:?}") };
    assert!(text.contains("semaphore of 4"), "{text}");
}

#[tokio::test]
async fn a_release_is_no_loss_and_ends_the_watch_for_one() {
    let client = Client::memory();
    let guard = client.mutex("a").acquire().await.unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    guard.on_lost(move |reason| tell.send(reason).unwrap());
    let watcher = tokio::spawn(guard.lost());
    assert_eq!(guard.loss(), None);
    guard.release().await.unwrap();
    assert_eq!(watcher.await.unwrap(), None);
    client.close().await.unwrap();
    // The callback is dropped, and so is its end of the channel.
    assert!(told.recv().is_err());
}
