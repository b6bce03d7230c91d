//! The verbs of the library, on the memory store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::blocking::wait;
use leasehold::event::Event;
use leasehold::lease::Renewal;
use leasehold::{Client, Error};

const SOON: Duration = Duration::from_secs(10);

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
async fn a_lease_is_not_handed_out_if_its_spans_would_be_forgotten() {
    let (client, span) = (Client::memory(), Duration::from_secs(60));
    for lock in [
        client.mutex("a").once_per(span),
        client.mutex("b").min_hold(span),
        client.mutex("c").max_hold(span),
    ] {
        let refused = lock.acquire().await.unwrap().into_lease().unwrap_err();
        assert!(refused.to_string().contains("acquire it where the job ends"), "{refused}");
    }
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
async fn a_wrong_name_or_option_is_reported_by_the_verb() {
    let client = Client::memory();
    for lock in [
        client.mutex(""),
        client.mutex("a\nb"),
        client.mutex("a").ttl(Duration::ZERO),
        client.mutex("a").min_hold(SOON * 2).max_hold(SOON),
        client.semaphore("a", 2).permits(3),
        client.multi(["a", ""]),
    ] {
        assert!(matches!(lock.try_acquire().await, Err(Error::Invalid(_))));
    }
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
