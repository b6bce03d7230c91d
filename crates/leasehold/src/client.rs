//! The client: the entry point of the library.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

#[cfg(doc)]
use leasehold_core::Error;
use leasehold_core::{
    Bounds, Clock, HolderInfo, InvalidInput, Lease, LeaseOptions, LockName, Mode, Result,
};

use crate::acquire::adopt;
use crate::admin::Admin;
use crate::clock::{PausedTime, SystemClock};
use crate::election::Election;
use crate::event::{Event, Observer, Observers};
use crate::guard::Guard;
use crate::keeper::{Handle, Keeper};
use crate::lock::Lock;
use crate::rwlock::RwLock;
use crate::semaphore::Semaphore;
use crate::store::clocked::ClockedStore;
use crate::store::{self, Memory, Store};

/// The slice: 5 ms, as long as about fifty round trips. So the round trip by which one
/// client hands over to the next costs only a few percent of the slice. If ten clients contend,
/// each has its turn within 50 ms.
const SLICE: Duration = Duration::from_millis(5);

/// A connection to a store, for making locks. A client is cheap to clone; all clones are the same
/// client. Its *keeper* renews leases and finishes releases in the background.
///
/// # Forking
///
/// A client belongs to the process that made it. After a fork(2) without exec, its calls fail in
/// the child with [`Error::Forked`]: make another client there. Guards of the parent are lost in
/// the child, for the reason [`LossReason::Forked`](crate::LossReason::Forked), and dropping them
/// releases nothing. If the parent had a file store open at the fork, the child cannot use any file
/// store: SQLite cannot be used on both sides of a fork.
///
/// Fork outside of async runtimes: the child shares the parent's tokio runtime, and must neither
/// use nor drop it.
#[derive(Clone, Debug)]
pub struct Client {
    keeper: Handle,
}

impl Client {
    /// Opens the store that a URL names (`memory:`, `file:PATH`, `redis://HOST/`, …) and makes the
    /// first contact with it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the part of the URL that is wrong; [`Error::Store`] says why the
    /// store could not be opened. The call fails immediately if no server listens there, and after
    /// 5 s if a server does not answer. It does not wait for the end of an
    /// outage: to wait, call again while [`is_outage`](crate::error::StoreErrorKind::is_outage) is
    /// true of the error. Once connected, the client rides out [outages](Lock#outages).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened; nothing is held.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::builder().url(url.as_ref()).build().await
    }

    /// A client whose locks are in this process, without a server: for embedding, and for tests.
    ///
    /// If the client is made inside of a tokio runtime whose time is paused
    /// (`#[tokio::test(start_paused = true)]`), it uses the time of that runtime. Leases and limits
    /// then end when the test's time has advanced far enough. The client belongs to that runtime,
    /// which also renews its leases.
    pub fn memory() -> Self {
        Self::builder().in_memory()
    }

    /// Returns a builder, for a client with options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            source: None,
            observers: Vec::new(),
            defaults: LeaseOptions::default(),
            clock: None,
            slice: SLICE,
        }
    }

    /// A mutex: at most one holder at a time.
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.keeper.clone(), LockName::new(name), Mode::Exclusive)
    }

    /// The same as [`Client::mutex`], by its name in Python.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.mutex(name)
    }

    /// A read/write lock: many readers or one writer.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.keeper.clone(), LockName::new(name))
    }

    /// A semaphore: at most `capacity` permits at a time.
    pub fn semaphore(&self, name: impl AsRef<str>, capacity: u32) -> Semaphore {
        Semaphore::new(self.keeper.clone(), LockName::new(name), capacity)
    }

    /// A lock of several names, up to 64. A caller gets all of them together, or none. Use it for a
    /// transfer between two accounts, or for an order of several products. The guard is an ordinary
    /// guard. The loss of one name is the loss of all, and [`Guard::tokens`] has a token for each
    /// name, in the order given.
    ///
    /// Names are sorted and duplicates left out, so two callers cannot each hold a name that the
    /// other waits for. When all names are free, one round trip takes all of them. A caller that
    /// has to wait is in the queue of the first busy name and **keeps the names sorted before it**.
    /// That queue is served in order. But while the caller waits, nobody else can get the names
    /// that it keeps. So a slow holder of one name can delay many callers.
    ///
    /// `multi` is not meant for a thousand rows of one table, nor for all of its rows. Give the
    /// whole table a name, and let a caller that wants a part of it take
    /// [`rwlock`](Client::rwlock)`(whole).read()` first.
    ///
    /// If callers that have a name in common [try](Lock::try_acquire) at the same moment, at least
    /// one gets all its names, unless somebody already holds one. A call that does not get the
    /// first of its sorted names ends as busy immediately. A call that gets its first name, but
    /// finds others just taken, asks for those again, for 500 ms at most.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let client = leasehold::Client::memory();
    /// let guard = client.multi(["account/7", "account/3"]).acquire().await?;
    /// for (name, token) in guard.tokens() {
    ///     println!("{name} with token {token}");
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Lock {
        Lock::multi(self.keeper.clone(), names)
    }

    /// An election: one leader among many candidates, such as the instance that runs the scheduler,
    /// or the writer of a partition. The leader announces a value, such as its address. Others ask
    /// or watch who leads.
    ///
    /// To keep a job from running twice, use [`Lock::try_run`] instead. An election cannot rule out
    /// that two processes act as leaders: a leader that was paused keeps acting until it checks
    /// [whether it still leads]. So send the leader's token with each write. An election is a mutex
    /// of the same name: the holder of the mutex leads, and its label is the value.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> leasehold::Result<()> {
    /// use leasehold::election::Observed;
    ///
    /// # let client = leasehold::Client::memory();
    /// let election = client.election("scheduler");
    /// let leadership = election.campaign("10.0.0.5:8080").await?; // waits until it leads
    /// assert_eq!(election.leader().await?.unwrap().value, "10.0.0.5:8080");
    /// leadership.proclaim("10.0.0.5:9090").await?;
    /// leadership.resign().await?;
    ///
    /// let mut observation = election.observe().await?;
    /// match observation.next().await? {
    ///     Observed::Leader(leader) => println!("{} leads, token {}", leader.value, leader.token),
    ///     Observed::Nobody => println!("nobody leads"),
    ///     Observed::Away(why) => println!("the store is away, so anybody may lead: {why}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [whether it still leads]: crate::election::Leadership::guard
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        let parsed = LockName::new(&name);
        Election::new(self.keeper.clone(), parsed, self.mutex(name))
    }

    /// The queries and actions of an operator.
    pub fn admin(&self) -> Admin {
        Admin::new(self.keeper.clone())
    }

    /// Takes over a lease that [`Guard::into_lease`] returned, in this process or another. Only the
    /// first caller that asks the store adopts a lease. The adopted lease has a new holder and a
    /// new token. So a lease that a job queue delivers twice results in one guard, and a write with
    /// the earlier token is refused.
    ///
    /// Cost: one round trip, and one more if this is the client's first request. If the store does
    /// not answer, the client asks again, for 5 s or the ttl, whichever is less. If several callers
    /// race for one lease on a quorum, perhaps none of them gets a majority: then the lease ends.
    ///
    /// # Errors
    ///
    /// [`Error::NotAdopted`] if the lease has ended meanwhile or was adopted before.
    /// [`Error::Indeterminate`] if no answer came: perhaps the lease was adopted, so the keeper
    /// ends it. After [`Error::Store`] the lease is unchanged.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper withdraws the adoption. If the lease was adopted by
    /// then, it ends; otherwise it is unchanged.
    pub async fn adopt(&self, lease: Lease) -> Result<Guard> {
        Ok(Guard::new(adopt(self.keeper.here()?, lease).await?))
    }

    /// A file descriptor for a supervisor that outlives this process. While a copy of the
    /// descriptor is open, the store considers this client alive: see [`Store::lifeline`].
    #[cfg(unix)]
    pub fn lifeline(&self) -> Option<OwnedFd> {
        let keeper = self.keeper.here().ok()?;
        keeper.store.inner.lifeline(keeper.client)
    }

    /// Releases all leases of this client, ends its calls for leases with [`Error::Closed`], and
    /// waits until the store has received these changes. The file of a client with a `file:` URL is
    /// then closed, so a process that is forked from now on may open it. If the last handle is
    /// dropped and no guard is left, the drop waits in the same way, for 1 s at most. If guards are
    /// left, they keep their leases.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if a lease could not be released, or not within 5 s. The lease then ends at
    /// its deadline, and the keeper tries again until then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper finishes the work by itself.
    pub async fn close(self) -> Result<()> {
        Ok(self.keeper.here()?.close().await?)
    }
}

/// Builds a [`Client`].
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// use std::time::Duration;
///
/// use leasehold::{Client, LeaseOptions};
///
/// let client = Client::builder()
///     .url("memory:")
///     .defaults(LeaseOptions { ttl: Duration::from_secs(10), ..LeaseOptions::default() })
///     .observer(|event: &leasehold::event::Event<'_>| println!("{event:?}"))
///     .build()
///     .await?;
/// client.mutex("a").acquire().await?.release().await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    source: Option<Source>,
    observers: Vec<Box<dyn Observer>>,
    defaults: LeaseOptions,
    clock: Option<Arc<dyn Clock>>,
    slice: Duration,
}

enum Source {
    Store(Box<dyn Store>),
    Url(String),
}

debug_as!(Source => |it, f| match it {
    Source::Store(store) => store.fmt(f),
    Source::Url(url) => f.write_str(&store::shown_url(url)),
});

impl ClientBuilder {
    /// The store, as a URL.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.source = Some(Source::Url(url.into()));
        self
    }

    /// The store, as a value.
    pub fn store(mut self, store: impl Into<Box<dyn Store>>) -> Self {
        self.source = Some(Source::Store(store.into()));
        self
    }

    /// The options that every lock of this client begins with.
    pub fn defaults(mut self, options: LeaseOptions) -> Self {
        self.defaults = options;
        self
    }

    /// How long this client passes a lease on between its callers, for tests: with zero, every
    /// caller asks the store.
    #[doc(hidden)]
    pub fn slice(mut self, slice: Duration) -> Self {
        self.slice = slice;
        self
    }

    /// Another clock, for tests. The store `memory:` runs on the same clock. Without this call,
    /// that store uses the clock that [`Client::memory`] would use.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// An observer, which receives all events. Each call adds one, and every observer receives
    /// every event.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Opens the store and makes the client.
    ///
    /// # Errors
    ///
    /// The same as [`Client::connect`], and [`Error::Invalid`] if the defaults are out of range or
    /// no store is given.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened; nothing is held.
    pub async fn build(mut self) -> Result<Client> {
        self.defaults.check()?;
        match self.source.take() {
            Some(Source::Store(store)) => Ok(self.with(store)),
            Some(Source::Url(url)) if store::is_memory(&url) => Ok(self.in_memory()),
            Some(Source::Url(url)) => Ok(self.with(store::connect(&url).await?)),
            None => {
                let why = "no store was given: call `url` or `store` before `build`";
                Err(InvalidInput::new("store", why).into())
            }
        }
    }

    fn in_memory(mut self) -> Client {
        let paused = || PausedTime::of_this_runtime().map(|time| Arc::new(time) as Arc<dyn Clock>);
        self.clock = self.clock.or_else(paused);
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        self.with(Box::new(Memory::on(clock)))
    }

    fn with(self, store: Box<dyn Store>) -> Client {
        let observers = Observers::new(self.observers);
        for text in store.warnings() {
            observers.observe(&Event::Warning { text: &text });
        }
        let offset = store.clock_offset();
        let bounds = Bounds { offset, ..Bounds::default() };
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let store = ClockedStore::new(store, clock, bounds, observers);
        let who = HolderInfo::new(host(), std::process::id());
        let keeper = Keeper::new(store, [random(), random()], who, self.defaults, self.slice);
        Client { keeper: Handle::new(Arc::new(keeper)) }
    }
}

/// 128 random bits from the system.
#[expect(clippy::expect_used, reason = "without randomness no identity is safe to use")]
fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    u128::from_ne_bytes(bytes)
}

/// The name of this machine, without anything that would disturb a terminal.
fn host() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).take(255).collect()
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Error, HolderId};

    use super::*;
    use crate::lost::Lost;

    /// Users can keep these types in structs and send them between threads.
    const _: () = {
        const fn can_be_shared<T: Send + Sync + 'static>() {}
        can_be_shared::<Client>();
        can_be_shared::<ClientBuilder>();
        can_be_shared::<Lock>();
        can_be_shared::<Guard>();
        can_be_shared::<Lost>();
        can_be_shared::<HolderId>();
        can_be_shared::<Error>();
    };
}
