//! A server, a network between it and one of two clients, and the checks of all scenarios.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use leasehold::admin::Status;
use leasehold::store::redis_wire::Script;
use leasehold::{Client, Error, FencingToken, Guard, LockName, LossReason, Lost};
pub(crate) use leasehold_testkit::harness::{PATIENCE, connect, loss, soon};
use leasehold_testkit::harness::{queued, until};
use leasehold_testkit::{Proxy, RedisServer};

/// A lease that ends within the test.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// A lease that does not end within the test, and is not even renewed.
pub(crate) const LONG: Duration = Duration::from_hours(1);

pub(crate) const NAME: &str = "a";

/// Two clients of one server.
pub(crate) struct Scene {
    pub(crate) server: RedisServer,
    /// The network before the far client.
    pub(crate) proxy: Proxy,
    /// A client that reaches the server through the proxy.
    pub(crate) far: Client,
    /// A client that reaches the server directly, however long an answer takes.
    pub(crate) near: Client,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::of(RedisServer::start().unwrap()).await
    }

    pub(crate) async fn of(server: RedisServer) -> Self {
        // A strike must hit a call that is executed, and not one that loads its script.
        let mut connection = server.connection().unwrap();
        for script in Script::ALL {
            redis::cmd("SCRIPT").arg("LOAD").arg(script.source()).exec(&mut connection).unwrap();
        }
        let proxy = Proxy::start(server.port()).unwrap();
        // Longer than an answer takes on a busy machine, and short enough to lose one.
        let far = connect(&format!("{}?timeout=2s", proxy.url())).await;
        let near = connect(&server.patient_url()).await;
        Self { server, proxy, far, near }
    }

    pub(crate) async fn status(&self, name: &str) -> Status {
        self.near.admin().inspect(&LockName::new(name).unwrap()).await.unwrap()
    }

    /// The tokens of all holders of a name, as the server has them once it knows them.
    pub(crate) async fn tokens(&self, name: &str) -> Vec<FencingToken> {
        let told = async {
            loop {
                let holders = self.status(name).await.holders;
                let tokens: Vec<_> = holders.iter().filter_map(|holder| holder.token).collect();
                if tokens.len() == holders.len() {
                    return tokens;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(told).await
    }

    /// Ends the connections of all inboxes, once there is one: it opens with the first acquire.
    pub(crate) async fn cut_inboxes(&self) {
        let cut = async || self.server.command::<u32>("CLIENT KILL TYPE pubsub").unwrap() > 0;
        until("an inbox is open", cut).await;
    }

    /// Waits until this many wait.
    pub(crate) async fn queued(&self, many: u32) {
        queued(&self.near, NAME, many).await;
    }

    /// Another client takes the lock on the name immediately.
    pub(crate) async fn take(&self) -> Guard {
        let guard = self.near.mutex(NAME).ttl(LONG).try_acquire().await.unwrap();
        guard.expect("nobody holds it")
    }

    /// Checks that nobody holds the name, and that no old waiter comes first.
    pub(crate) async fn assert_free(&self) {
        self.take().await.release().await.unwrap();
    }

    /// Another client's wait for the name, which has begun.
    pub(crate) async fn wait(&self) -> impl Future<Output = Guard> + use<> {
        // A separate client: in the holder's client, the caller would stand in its line.
        let lock = connect(&self.server.patient_url()).await.mutex(NAME).ttl(LONG);
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
        self.queued(1).await;
        async move { soon(waiting).await.unwrap() }
    }
}

/// A server forgets a grant, or ends it too early, while its holder is cut off and cannot learn of
/// it.
///
/// Until then two hold the lock. Nothing prevents that, and a test in which it does not happen
/// would prove nothing. The order of tokens holds. The holder is told as early as possible, and not
/// only when its lease would have ended.
pub(crate) async fn breaks_exclusion_and_not_the_order(
    mut scene: Scene,
    forget: impl AsyncFnOnce(&mut Scene),
) {
    let guard = soon(scene.far.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    scene.proxy.swallow(true);
    forget(&mut scene).await;
    let next = soon(scene.near.mutex(NAME).ttl(LONG).acquire()).await.unwrap();
    assert!(guard.is_held(), "nobody can have told it yet: the fault breaks exclusion");
    assert!(next.token() > guard.token(), "{} came after {}", next.token(), guard.token());
    scene.proxy.cut();
    scene.proxy.swallow(false);
    assert_eq!(loss(&guard).await, LossReason::Vanished);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    next.renew().await.expect("the late release touches nobody");
    assert_eq!(scene.tokens(NAME).await, [next.token()]);
}

/// Whether the holder was told by now.
pub(crate) fn has_ended(mut lost: Lost) -> bool {
    Pin::new(&mut lost).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Until when the holder may rely on its guard: between the first and the second.
pub(crate) fn reliable_until(guard: &Guard) -> (Instant, Instant) {
    let before = Instant::now();
    let validity = guard.validity();
    (before + validity, Instant::now() + validity)
}
