//! Many items, one acquisition: tasks of one process submit items, and the holder of the lease
//! processes all submitted items.

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use leasehold::error::InvalidInput;
use leasehold::{Error, Guard, Lock, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The largest number of items in a batch, by default: 100, so that one slow batch does not hold
/// the lock for long.
const DEFAULT_MAX_ITEMS: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// How many full batches of items can wait to be processed; a caller that submits more items waits
/// until there is room.
const WAITING_BATCHES: usize = 4;

/// The size limit of a batch, and how long its first item waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchLimits {
    /// The most items that are processed under one acquisition: 100 by default.
    pub max_items: NonZeroUsize,
    /// How long the first item of a batch waits for more items before the batcher requests the
    /// lock. By default it does not wait, because items gather anyway while the batcher waits for
    /// the lock.
    pub max_delay: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { max_items: DEFAULT_MAX_ITEMS, max_delay: Duration::ZERO }
    }
}

/// Processes items of many tasks together, under one acquisition of a lock.
///
/// Use it for many small changes to one record, such as orders of one product or entries of one
/// ledger. A batcher gathers the items of the tasks of *one process*; the lock keeps the processes
/// apart. If the items are independent, give each item a separate lock name. If one atomic command
/// of the database does the work, you need no lock at all.
///
/// Share the batcher among tasks in an [`Arc`](std::sync::Arc). Dropping the batcher withdraws the
/// items whose batch has not begun.
///
/// Each item gets its own result from the work, and an item that fails does not affect the others.
/// If the lease is lost while the work runs, the future of the work is dropped, and every item of
/// that batch fails with [`Error::Lost`]. Items of later batches are processed under the next
/// lease.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let client = leasehold::Client::memory();
/// use leasehold::Guard;
/// use leasehold_data::{BatchLimits, Batcher};
///
/// let lock = client.mutex("stock/7");
/// let accept = |pieces| if pieces < 10 { Ok(pieces) } else { Err("too many") };
/// let work = move |guard: Guard, orders: Vec<u32>| async move {
///     println!("{} orders with token {}", orders.len(), guard.token());
///     orders.into_iter().map(accept).collect()
/// };
/// let batcher = Batcher::start(lock, BatchLimits::default(), work)?;
/// let (one, two) = tokio::join!(batcher.submit(3), batcher.submit(12));
/// assert_eq!((one?, two?), (Ok(3), Err("too many")));
/// batcher.close().await;
/// # Ok(())
/// # }
/// ```
pub struct Batcher<T, R> {
    entries: mpsc::Sender<BatchEntry<T, R>>,
    worker: JoinHandle<()>,
}

/// An item and the channel for its result.
struct BatchEntry<T, R> {
    item: T,
    result: oneshot::Sender<Result<R>>,
}

impl<T: Send + 'static, R: Send + 'static> Batcher<T, R> {
    /// Starts a batcher on the calling tokio runtime. It sends nothing to the store before the
    /// first item.
    ///
    /// `work` gets a guard of the lease, and the items in the order in which they were submitted.
    /// It returns one result per item, in the same order.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] outside of a runtime.
    pub fn start<F>(
        lock: Lock,
        limits: BatchLimits,
        mut work: impl FnMut(Guard, Vec<T>) -> F + Send + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = Vec<R>> + Send + 'static,
    {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            InvalidInput::new("runtime", "a batcher needs a tokio runtime: start it inside one")
        })?;
        let room = limits.max_items.get().saturating_mul(WAITING_BATCHES);
        let (entries, receiver) = mpsc::channel(room);
        let worker = Worker {
            lock,
            limits,
            entries: receiver,
            work: Box::new(move |guard, items| Box::pin(work(guard, items))),
        };
        Ok(Self { entries, worker: runtime.spawn(worker.run()) })
    }

    /// Submits an item and waits for its result. If too many items wait, the call first waits for
    /// room.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease was lost while the item was being processed: only the resource
    /// knows whether the item was processed. The errors of [`Lock::acquire`] if the lock was not
    /// acquired: the item was then not processed. [`Error::Closed`] if the batcher ended before the
    /// item was processed; it also ends when the work panics.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws an item whose batch has not begun. An item in a running batch
    /// is still processed. Other callers' items are not affected.
    pub async fn submit(&self, item: T) -> Result<R> {
        let (result, came) = oneshot::channel();
        let entry = BatchEntry { item, result };
        self.entries.send(entry).await.map_err(|_| Error::Closed)?;
        came.await.map_err(|_| Error::Closed)?
    }

    /// Takes no more items, and waits until all submitted items are processed or withdrawn.
    pub async fn close(self) {
        let Self { entries, worker } = self;
        drop(entries);
        // If the work panicked, nothing is left to wait for, and the callers have got their errors.
        drop(worker.await);
    }
}

impl<T, R> fmt::Debug for Batcher<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("room", &self.entries.capacity()).finish_non_exhaustive()
    }
}

type Work<T, R> = Box<dyn FnMut(Guard, Vec<T>) -> BoxFuture<'static, Vec<R>> + Send>;

/// The task that processes batches, until the batcher is gone.
struct Worker<T, R> {
    lock: Lock,
    limits: BatchLimits,
    entries: mpsc::Receiver<BatchEntry<T, R>>,
    work: Work<T, R>,
}

impl<T: Send + 'static, R: Send + 'static> Worker<T, R> {
    async fn run(mut self) {
        let mut batch = Vec::new();
        while let Some(first) = self.entries.recv().await {
            batch.push(first);
            self.gather(&mut batch).await;
            let Some(acquired) = self.acquire(&mut batch).await else { continue };
            self.refresh(&mut batch);
            match acquired {
                // If the release fails, the keeper repeats it.
                Ok(guard) if batch.is_empty() => drop(guard.release().await),
                Ok(guard) => self.process(guard, std::mem::take(&mut batch)).await,
                Err(error) => {
                    for entry in batch.drain(..) {
                        // A caller that has given up does not receive the error.
                        let _ = entry.result.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Waits for more items until the batch is full, or until its first item has waited long
    /// enough.
    async fn gather(&mut self, batch: &mut Vec<BatchEntry<T, R>>) {
        if self.limits.max_delay.is_zero() {
            return;
        }
        let over = tokio::time::Instant::now() + self.limits.max_delay;
        while batch.len() < self.limits.max_items.get() {
            match tokio::time::timeout_at(over, self.entries.recv()).await {
                Ok(Some(entry)) => batch.push(entry),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Acquires the lock; `None` once the callers of all items have given up, because without
    /// items no lock is needed.
    async fn acquire(&mut self, batch: &mut Vec<BatchEntry<T, R>>) -> Option<Result<Guard>> {
        let lock = self.lock.clone();
        let mut acquire = pin!(lock.acquire());
        loop {
            self.refresh(batch);
            if batch.is_empty() {
                return None;
            }
            match select(acquire.as_mut(), pin!(all_withdrawn(batch))).await {
                Either::Left((acquired, _)) => return Some(acquired),
                Either::Right(_) => {} // other items may have come
            }
        }
    }

    /// Takes withdrawn items out of the batch, and adds items that have come.
    fn refresh(&mut self, batch: &mut Vec<BatchEntry<T, R>>) {
        batch.retain(|entry| !entry.result.is_closed());
        while batch.len() < self.limits.max_items.get() {
            match self.entries.try_recv() {
                Ok(entry) if entry.result.is_closed() => {}
                Ok(entry) => batch.push(entry),
                Err(_) => return,
            }
        }
    }

    async fn process(&mut self, guard: Guard, batch: Vec<BatchEntry<T, R>>) {
        let (items, results): (Vec<T>, Vec<_>) =
            batch.into_iter().map(|entry| (entry.item, entry.result)).unzip();
        let count = items.len();
        let outcome = match guard.reenter() {
            Ok(inner) => {
                let work = (self.work)(inner, items);
                match select(guard.lost(), work).await {
                    Either::Left(_) => Err(lost(&guard)),
                    // Work that ended while the lease was valid counts, even if the release fails.
                    Either::Right((done, _)) => guard.ensure_held().map(|()| done),
                }
            }
            Err(error) => Err(error),
        };
        let outcome = outcome.and_then(|done| match done.len() {
            given if given == count => Ok(done),
            given => Err(miscounted(given, count)),
        });
        match outcome {
            Ok(done) => results.into_iter().zip(done).for_each(|(result, done)| {
                // A caller that has given up does not receive the result.
                let _ = result.send(Ok(done));
            }),
            Err(error) => results.into_iter().for_each(|result| {
                let _ = result.send(Err(error.clone()));
            }),
        }
        // If the release fails, the keeper repeats it; the results remain valid.
        drop(guard.release().await);
    }
}

/// Waits until the callers of all items have given up.
async fn all_withdrawn<T, R>(batch: &mut [BatchEntry<T, R>]) {
    for entry in batch {
        entry.result.closed().await;
    }
}

fn lost(guard: &Guard) -> Error {
    guard.ensure_held().err().unwrap_or(Error::Closed)
}

fn miscounted(given: usize, wanted: usize) -> Error {
    let why = format!("the work gave {given} results for {wanted} items: give one for each");
    InvalidInput::new("results", why).into()
}
