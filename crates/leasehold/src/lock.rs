//! A request for one lease: its names, its mode and its options.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Error, InvalidInput, LeaseOptions, LockName, Mode, Renewal, Result, Status};

use crate::acquire::{self, Asked, CallEvents, Limit};
use crate::admin::Admin;
use crate::guard::Guard;
use crate::keeper::Handle;

/// A request for one lease: its names, its mode and its options. It does no I/O until one of its
/// methods is called. A lock is not a future: write `lock.acquire().await`, and not `lock.await`.
///
/// A mutex, a reader, a writer and a permit have the same methods and return the same guard. The
/// methods report a wrong name or option.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let client = leasehold::Client::memory();
/// use std::time::Duration;
///
/// let lock = client.mutex("import").ttl(Duration::from_secs(10)).label("nightly import");
/// let guard = lock.acquire().await?; // waits in line
/// assert!(lock.try_acquire().await?.is_none(), "busy is not an error");
/// assert!(lock.acquire_within(Duration::from_millis(10)).await.is_err());
/// assert_eq!(lock.status().await?.holders[0].token, Some(guard.token()));
/// guard.release().await?;
/// let rows = lock.run(async |guard| import(guard.token()).await).await?;
/// # assert_eq!(rows, 3);
/// # Ok(())
/// # }
/// # async fn import(_: leasehold::FencingToken) -> leasehold::Result<u32> { Ok(3) }
/// ```
///
/// # Fairness
///
/// Callers of one client that want the same name exclusively (`mutex`, `rwlock.write`) stand in
/// line. The first caller asks the store. Then the client passes the lease from caller to caller in
/// their order, without asking the store. Each caller gets a higher token than the one before.
/// After 5 ms (the *slice*) the client lets other clients have their turn: its line goes to the end
/// of the store's queue. If each holder keeps the lease for longer than the slice, each turn has
/// one holder. If the first caller gives up, the next caller in line joins the store's queue in its
/// place, at the end. If a guard was dropped and its release is not sent yet, a new caller gets
/// that lease.
///
/// A call drives itself: while its future is not polled, it asks for nothing and claims nothing,
/// and the store serves others. But it holds up the callers behind it in its own line, and it keeps
/// names that it has gathered. So poll a call until it is done, or drop it.
///
/// Callers stand in the same line if their options differ in the label only, and include no
/// `max_hold`, `min_hold`, `once_per` or [`Renewal::Off`](crate::lease::Renewal::Off). All other
/// callers ask the store themselves, and so do elections and calls for several names. A lease that
/// is handed out or renewed for another ttl leaves the line. For a line,
/// [`Admin::inspect`] shows the last holder that has kept the lease for 100 ms; if there is none,
/// it shows the first holder. The token that comes with a passed-on lease is higher than
/// that of the lease's grant, and lower than that of the next grant.
///
/// If the store has a queue, it serves clients in the order in which it saw them. A release hands
/// the lock to the first waiter, and a new caller takes a free lock only when nobody waits. A
/// quorum, and a layout that is shared with programs in other languages, have no queue. With these,
/// waiters ask again and again, and the first waiter that asks after a release gets the lock. A
/// client that has had its turn lets a moment pass before it asks again.
///
/// # Outages
///
/// A waiter rides out outages, even if this client has never reached the store: `acquire` waits for
/// ever, `acquire_within` until its limit. ([`Client::connect`](crate::Client::connect) does not
/// wait for the end of an outage.) All waiters together try to connect a few times a second, and
/// are served within seconds of the server's return.
///
/// [`StoreErrorKind::is_outage`](crate::error::StoreErrorKind::is_outage) says which errors are
/// outages. Any other error ends the call immediately, because waiting does not change it. Examples
/// are a full store, a missing right, a foreign or damaged record, or a ttl that is not allowed. In
/// a quorum, such an error ends the call once the nodes without the error are too few for a
/// majority.
///
/// [`Event::Waiting`](crate::event::Event::Waiting) says why a call waits: others are ahead of it,
/// the store is in trouble, or its own client holds the lock. If a limit ends the wait, the error
/// gives the same reason.
#[derive(Clone, Debug)]
#[must_use = "a `Lock` does nothing until `acquire`, `acquire_within`, `try_acquire` or `run`"]
pub struct Lock {
    keeper: Handle,
    names: Result<LockNames, InvalidInput>,
    mode: Mode,
    options: Arc<LeaseOptions>,
    /// Whether this caller stands in its client's line: callers there pass the lease on to each
    /// other.
    joins: bool,
}

/// The name or names of a lock.
#[derive(Clone, Debug)]
enum LockNames {
    One(LockName),
    Several(Arc<[LockName]>),
}

impl Lock {
    pub(crate) fn new(keeper: Handle, name: Result<LockName, InvalidInput>, mode: Mode) -> Self {
        let options = Arc::clone(&keeper.defaults);
        Self { keeper, names: name.map(LockNames::One), mode, options, joins: true }
    }

    /// A request for several mutexes together.
    pub(crate) fn multi<N: AsRef<str>>(keeper: Handle, names: impl IntoIterator<Item = N>) -> Self {
        let options = Arc::clone(&keeper.defaults);
        let names = acquire::parse(names).map(|names| LockNames::Several(names.into()));
        Self { keeper, names, mode: Mode::Exclusive, options, joins: false }
    }

    /// The same request outside of the line of its client. Each lease is granted by the store,
    /// which then has the label of this holder for others to read.
    pub(crate) fn alone(mut self) -> Self {
        self.joins = false;
        self
    }

    /// The same request for another mode.
    pub(crate) fn with_mode(&self, mode: Mode) -> Self {
        Self { mode, ..self.clone() }
    }

    /// The same request with other options.
    fn with(mut self, change: impl FnOnce(&mut LeaseOptions)) -> Self {
        change(Arc::make_mut(&mut self.options));
        self
    }

    /// Replaces all options.
    pub fn options(self, options: LeaseOptions) -> Self {
        self.with(|own| *own = options)
    }

    /// How long the store is asked to keep the lease: 100 ms to 24 h. If the holder crashes,
    /// others wait for the rest of this time.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|options| options.ttl = ttl)
    }

    /// Chooses who renews the lease. If nothing renews it, a grant that leaves less than half
    /// of the ttl is given back.
    pub fn renewal(self, renewal: Renewal) -> Self {
        self.with(|options| options.renewal = renewal)
    }

    /// The lease is lost after this time, counted from the grant, even if its holder is
    /// healthy.
    pub fn max_hold(self, limit: Duration) -> Self {
        self.with(|options| options.max_hold = Some(limit))
    }

    /// The name stays taken for at least this long from the grant, even if it is released
    /// before: the rest is its *cooldown*, in which nobody holds it. Zero by default, at most
    /// 24 h. If the holder dies, or no request of its release reaches the store, the name is
    /// free when the lease ends.
    pub fn min_hold(self, least: Duration) -> Self {
        self.with(|options| options.min_hold = Some(least))
    }

    /// One run that succeeds is enough in this time, such as 20 h for a nightly job. If a run has
    /// succeeded that began less than `span` ago, on any machine, the lock is not granted. Then the
    /// call ends with [`Error::AlreadyDone`]: who ran, when, and when the next run may begin. The
    /// clock of the store decides. At most 366 days.
    ///
    /// A run has succeeded if [`run`](Lock::run) or [`try_run`](Lock::try_run) ends with `Ok`, or
    /// by [`Guard::done`]. A run that fails, dies, loses its lease or is revoked leaves nothing, so
    /// the next one may begin immediately.
    ///
    /// A store keeps the last such run for twice the span, in some 150 bytes
    /// ([`Status::last_holder`]). It is for a mutex of one name, and not for a layout that is
    /// shared with programs in other languages.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let client = leasehold::Client::memory();
    /// use leasehold::Error;
    /// use std::time::Duration;
    ///
    /// let nightly = client.mutex("nightly-report").once_per(Duration::from_secs(20 * 3600));
    /// match nightly.run(async |guard| report(guard.token()).await).await {
    ///     Ok(pages) => println!("{pages} pages"),
    ///     Err(done @ Error::AlreadyDone { .. }) => println!("{done}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # async fn report(_: leasehold::FencingToken) -> leasehold::Result<u32> { Ok(3) }
    /// # Ok(())
    /// # }
    /// ```
    pub fn once_per(self, span: Duration) -> Self {
        self.with(|options| options.once_per = Some(span))
    }

    /// The text by which an operator recognises the holder.
    pub fn label(self, label: impl Into<String>) -> Self {
        self.with(|options| options.label = Some(label.into()))
    }

    /// Waits for the lease, without a limit.
    ///
    /// Cost: one round trip if the lease is free. If not, one more per second of waiting, for all
    /// waiters of this client on the name together. The first call of a client also opens its
    /// inbox, where the store's messages arrive.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Closed`]; [`Error::AlreadyDone`] with
    /// [`once_per`](Lock::once_per). If the store has trouble that waiting does not end,
    /// the call fails immediately with [`Error::Store`], which names the remedy. Contention and
    /// outages are no errors.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any point leaves nothing behind: the keeper cancels the attempt, or
    /// releases a lease that was granted meanwhile. The place in the queue goes to the next caller
    /// in line, or is lost if there is none.
    ///
    /// A future that is not polled gets nothing, for example while another `select!` branch works
    /// or its thread is blocked. The future must fetch a grant within 2 s, or within three quarters
    /// of the ttl if that is less: otherwise the client gives the grant back. The same applies to
    /// names that the call already holds while it waits for others. When the future is polled
    /// again, it joins the queue anew.
    pub async fn acquire(&self) -> Result<Guard> {
        self.wait(Limit::Forever).await
    }

    /// Waits for the lease, but not longer than `limit`. A limit of zero is a
    /// [try](Lock::try_acquire). After the limit, the call may take up to 500 ms more: for an
    /// answer that is still under way, or to leave the queue.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] says who held the name at the limit. [`Error::Store`] says what trouble
    /// with the store lasted until the limit. [`Error::Indeterminate`] if the last requests were
    /// not answered. Otherwise the same as [`acquire`](Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Lock::acquire).
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        self.wait(Limit::Within(limit)).await
    }

    /// Takes the lease if nobody has it or waits for it, and returns `None` otherwise: busy is not
    /// an error.
    ///
    /// Cost: one round trip, or none while callers of this client hold the lease or wait for it in
    /// line. With several names, a few more if somebody has just taken one of them.
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Lock::acquire), and [`Error::Indeterminate`] if no answer came
    /// within 2 s.
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Lock::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.take(Limit::Try).await
    }

    /// The holders and the waiters of the name, the same as [`Admin::inspect`]. A snapshot: stale
    /// once read.
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Store`]; [`Error::Invalid`] for a lock of several names, because each name has a
    /// separate status.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn status(&self) -> Result<Status> {
        match self.names.as_ref().map_err(InvalidInput::clone)? {
            LockNames::One(name) => Admin::new(self.keeper.clone()).status(name).await,
            LockNames::Several(_) => {
                let why = "several names have no status in common: ask `Admin::inspect` for each";
                Err(InvalidInput::new("names", why).into())
            }
        }
    }

    /// Acquires, runs `work` and releases. If the lease is lost while `work` still runs, `work` is
    /// dropped.
    ///
    /// If `work` ended within the validity, the call returns its value even if the release fails:
    /// finished work, such as a charge, must not be repeated. The keeper finishes the release.
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`acquire`](Lock::acquire); [`Error::Lost`] if the lease was
    /// lost before the work ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the unfinished work, and releases the lease.
    pub async fn run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.acquire().await?.run(work).await
    }

    /// Like [`run`](Lock::run) if the lease is free; otherwise it returns `None`. Use it for a job
    /// that every machine starts at the same time but only one must run, such as a nightly report.
    /// With [`once_per`](Lock::once_per), a machine that is late does not run the job again. A
    /// [`max_hold`](Lock::max_hold) ends a job that hangs.
    ///
    /// This does not promise that the job runs exactly once. A machine that dies in the middle
    /// leaves the job undone, or half done for the next run. So the job must record its finished
    /// steps, together with the token. `try_run` is not a scheduler either: it starts no job by
    /// itself.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let client = leasehold::Client::memory();
    /// use std::time::Duration;
    ///
    /// let job = client
    ///     .mutex("nightly-report")
    ///     .once_per(Duration::from_secs(20 * 3600)) // from its start to the next
    ///     .max_hold(Duration::from_secs(3600)); // it hangs after that
    /// match job.try_run(async |guard| report(guard.token()).await).await? {
    ///     Some(pages) => println!("{pages} pages"),
    ///     None => println!("another machine is at it"),
    /// }
    /// # async fn report(_: leasehold::FencingToken) -> leasehold::Result<u32> { Ok(3) }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`try_acquire`](Lock::try_acquire); [`Error::Lost`] if the lease
    /// was lost before the work ended.
    ///
    /// # Cancel safety
    ///
    /// The same as [`run`](Lock::run).
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        match self.try_acquire().await? {
            Some(guard) => guard.run(work).await.map(Some),
            None => Ok(None),
        }
    }

    async fn wait(&self, limit: Limit) -> Result<Guard> {
        // Only a try can end without a guard, so this call has one.
        self.take(limit).await?.ok_or(Error::Closed)
    }

    async fn take(&self, limit: Limit) -> Result<Option<Guard>> {
        let names = self.names.as_ref().map_err(InvalidInput::clone)?;
        self.mode.check()?;
        self.options.check()?;
        let (mode, options) = (self.mode, &self.options);
        let keeper = self.keeper.here()?;
        keeper.store.bounds.check(options.ttl, options.least_validity())?;
        let is_one = mode == Mode::Exclusive && matches!(names, LockNames::One(_));
        let keeps_runs = keeper.store.inner.capabilities().recorded_tokens;
        if options.once_per.is_some() && !(is_one && keeps_runs) {
            let why = "`once_per` is for a mutex of one name, in a layout of leasehold's own";
            return Err(InvalidInput::new("once_per", why).into());
        }
        let events = CallEvents::begin(keeper, names.all(), mode, options, limit);
        let asked = Asked { joins: self.joins, ..events.first.clone() };
        match names {
            LockNames::One(_) => {
                let held = acquire::acquire(asked).await;
                events.end(held.as_ref().map(|held| held.as_ref().map(slice::from_ref)));
                Ok(held?.map(Guard::new))
            }
            LockNames::Several(names) => {
                // Boxed, so that the future of a single name stays small.
                let held = Box::pin(acquire::acquire_all(names, asked)).await;
                events.end(held.as_ref().map(Option::as_deref));
                Ok(held?.and_then(Guard::of_all))
            }
        }
    }
}

impl LockNames {
    fn all(&self) -> &[LockName] {
        match self {
            Self::One(name) => slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}
