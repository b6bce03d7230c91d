//! Functions that many tests use: waiting for events, and for conditions to become true.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::admin::{HolderId, HolderInfo};
use leasehold::error::StoreErrorKind;
use leasehold::lease::Mode;
use leasehold::{Client, Error, Guard, Lock, LockName, LossReason};
use leasehold_core::{Request, Take};
use tokio::task::JoinHandle;

use crate::{Cluster, RedisServer};

/// How long a test waits for something that must happen: 2 min, generous for a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// How often a test checks whether an awaited event has happened: every 10 ms.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The value of a result that a test relies on.
#[track_caller]
pub fn must<T, E: fmt::Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error:?}"),
    }
}

/// The options that a URL stands for.
#[track_caller]
pub fn options_of(url: &str) -> leasehold::store::RedisOptions {
    must(leasehold::store::RedisOptions::from_url(url))
}

/// The URL of a quorum of nodes on this machine, with these options.
pub fn quorum_url(ports: impl IntoIterator<Item = u16>, options: &str) -> String {
    let hosts: Vec<_> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("redis+quorum://{}?{options}", hosts.join(","))
}

/// Three servers without persistence, and the URL of their quorum, with these options.
pub fn three_nodes(options: &str) -> (Vec<RedisServer>, String) {
    let nodes: Vec<_> = (0..3).map(|_| must(RedisServer::start())).collect();
    let url = quorum_url(nodes.iter().map(RedisServer::port), options);
    (nodes, url)
}

/// Waits for something that must happen.
#[track_caller]
pub fn soon<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let Ok(output) = tokio::time::timeout(PATIENCE, what).await else {
            panic!("it never happens: {place}")
        };
        output
    }
}

/// Checks again and again until a condition is true.
#[track_caller]
pub fn until(what: &str, is_so: impl AsyncFn() -> bool) -> impl Future<Output = ()> {
    let (place, since) = (Location::caller(), Instant::now());
    async move {
        while !is_so().await {
            assert!(since.elapsed() < PATIENCE, "it never came to this: {what}: {place}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The same for a thread that may block.
#[track_caller]
pub fn until_so(what: &str, mut is_so: impl FnMut() -> bool) {
    must(try_until(what, || Ok::<_, io::Error>(is_so())));
}

/// The same for a condition that may fail.
pub fn try_until<E: From<io::Error>>(
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, E>,
) -> Result<(), E> {
    let since = Instant::now();
    while !is_so()? {
        if since.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("it never came to this: {what}")).into());
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Tries again and again until it works.
#[track_caller]
pub fn retry<T, E: fmt::Debug>(verb: impl AsyncFn() -> Result<T, E>) -> impl Future<Output = T> {
    let (place, since) = (Location::caller(), Instant::now());
    async move {
        loop {
            match verb().await {
                Ok(value) => return value,
                Err(error) => {
                    assert!(since.elapsed() < PATIENCE, "it never works: {error:?}: {place}");
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Renews as soon as a server answers.
pub async fn renew(guard: &Guard) -> Result<Duration, Error> {
    let since = Instant::now();
    loop {
        match guard.renew().await {
            Err(error) if error.is_transient() && since.elapsed() < PATIENCE => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            outcome => return outcome,
        }
    }
}

/// Renews, and checks that the other client still sees the hold, with its old token. Returns the
/// validity.
pub async fn goes_on(guard: &Guard, other: &Client) -> Duration {
    let validity = must(renew(guard).await);
    let status = must(other.admin().inspect(guard.name()).await);
    assert_eq!(status.holders.first().and_then(|holder| holder.token), Some(guard.token()));
    validity
}

/// The guard of a lock that will be free soon, at a store that may refuse for a while.
pub async fn free_soon(lock: &Lock) -> Guard {
    let taken = || "it is taken".to_owned();
    retry(async || lock.try_acquire().await.map_err(|why| why.to_string())?.ok_or_else(taken)).await
}

/// A client of the store with this URL. On a busy machine a healthy server may be too slow for the
/// timeouts of a test.
pub async fn connect(url: impl AsRef<str>) -> Client {
    let since = Instant::now();
    loop {
        match Client::connect(url.as_ref()).await {
            Ok(client) => return client,
            Err(error) => assert!(error.is_transient() && since.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// The words with which a store of this URL refuses what it cannot do.
pub async fn refusal(url: &str) -> String {
    match Client::connect(url).await {
        Err(Error::Invalid(invalid)) => invalid.to_string(),
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Unsupported => {
            error.to_string()
        }
        other => panic!("{url}: {other:?}"),
    }
}

/// The same store for a client that shares no connections with others: its timeout is another.
pub fn apart(url: impl AsRef<str>) -> String {
    static URLS: AtomicU32 = AtomicU32::new(501);
    let (url, ms) = (url.as_ref(), URLS.fetch_add(1, Ordering::Relaxed));
    format!("{url}{}timeout={ms}ms", if url.contains('?') { '&' } else { '?' })
}

/// How often a node has refused something with this code since it was started.
pub fn refusals(cluster: &Cluster, node: usize, code: &str) -> u64 {
    must(cluster.node(node).number("errorstats", &format!("errorstat_{code}:count=")))
}

/// Acquires a lock in a task.
pub fn acquiring(lock: Lock) -> JoinHandle<leasehold::Result<Guard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// Waits until the given number of waiters wait for a name.
pub async fn queued(client: &Client, name: impl AsRef<str>, count: u32) {
    let name = must(LockName::new(name.as_ref()));
    let is_so = async || {
        let status = client.admin().inspect(&name).await;
        status.is_ok_and(|status| status.waiting == count)
    };
    until(&format!("{count} wait for {name}"), is_so).await;
}

/// Waits for the loss of a guard, and returns the reason.
#[track_caller]
pub fn loss(guard: &Guard) -> impl Future<Output = LossReason> {
    let lost = soon(guard.lost());
    async move { lost.await.unwrap_or_else(|| panic!("it was released")) }
}

/// A request for an exclusive lease that does not end during a test. The request does not wait. A
/// test changes the fields that it is about.
pub fn request(id: HolderId) -> Take {
    let request = Request::new(id, Mode::Exclusive, HolderInfo::new("host", 42));
    Take::new(request, Duration::from_secs(600))
}
