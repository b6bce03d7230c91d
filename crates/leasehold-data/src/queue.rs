//! A queue that many producers fill and the holder of a lease drains.

use std::time::Duration;

use leasehold::error::{InvalidInput, StoreError, StoreErrorKind};
use leasehold::fence::Fence;
use leasehold::{Error, Result};

use crate::model::queue::{Entry, MAX_BATCH, MAX_PAYLOAD_BYTES, QueueAction, QueueReply};
use crate::model::{Action, Id, Reply};
use crate::part::{DEFAULT_REMEMBER, Part, check_size, remember_us, unexpected};

/// How often to ask for a result: first after 5 ms, then at intervals that grow by half each time,
/// up to half a second.
const ASK_FIRST: Duration = Duration::from_millis(5);
const ASK_LAST: Duration = Duration::from_millis(500);

/// A queue of work: producers on any machine append entries, and the holder of a lock processes
/// them in batches.
///
/// An entry leaves the queue in the same step in which its result is stored. The store refuses that
/// step to a holder once a newer holder has taken or finished entries. So no crash repeats an entry
/// that has a result. But no queue can know whether an effect *elsewhere* happened before the
/// result was stored. So make such an effect idempotent by the entry's id, or fence it with the
/// same token.
///
/// At most 100 000 entries of up to 64 KiB each wait; results are kept for 24 h unless
/// [`remember`](Queue::remember) says otherwise.
///
/// # Examples
///
/// ```
/// # use leasehold::Client;
/// # use leasehold_data::Data;
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let (client, data) = (Client::memory(), Data::memory());
/// let queue = data.queue("invoices");
/// queue.push("order-17", "…").await?; // on any machine
///
/// let guard = client.mutex("invoices").acquire().await?; // on one of them
/// let done = queue.open(&guard).drain(async |entry| {
///     Ok::<_, leasehold::Error>(format!("invoice for {}", entry.id))
/// }).await?;
/// assert_eq!(done, 1);
///
/// assert_eq!(queue.result("order-17").await?, b"invoice for order-17");
/// # guard.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a `Queue` does nothing until a verb is called"]
pub struct Queue {
    part: Part,
    remember: Duration,
}

/// The progress of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The entry is done, with this result.
    Done(Vec<u8>),
    /// The entry waits to be processed.
    Pending,
}

impl Queue {
    pub(crate) fn new(part: Part) -> Self {
        Self { part, remember: DEFAULT_REMEMBER }
    }

    /// How long results are kept: 1 s to 365 days, 24 h by default. After that, the id may be
    /// reused.
    pub fn remember(mut self, span: Duration) -> Self {
        self.remember = span;
        self
    }

    /// Appends an entry, once. If an error leaves it open whether the entry was appended, push
    /// again with the same id. Returns the result if the entry is already done.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](leasehold::Error::Invalid) for a payload above 64 KiB;
    /// [`Error::Store`](leasehold::Error::Store), of kind `Full` when 100 000 entries wait.
    pub async fn push(&self, id: impl AsRef<str>, payload: impl Into<Vec<u8>>) -> Result<Progress> {
        let entry = Entry { id: Id::new("entry", id)?, payload: payload.into() };
        check_size("payload", entry.payload.len(), MAX_PAYLOAD_BYTES)?;
        match self.step(QueueAction::Push(entry)).await? {
            QueueReply::Done(result) => Ok(Progress::Done(result)),
            QueueReply::Full => {
                let why = "the queue is full: does anybody drain it?";
                Err(StoreError::new(StoreErrorKind::Full, why).into())
            }
            QueueReply::Pending => Ok(Progress::Pending),
            other => Err(unexpected(&Reply::Queue(other))),
        }
    }

    /// Returns the progress of an entry, or `None` if the entry is not known.
    ///
    /// # Errors
    ///
    /// [`Error::Store`](leasehold::Error::Store).
    pub async fn progress(&self, id: impl AsRef<str>) -> Result<Option<Progress>> {
        match self.step(QueueAction::Ask { id: Id::new("entry", id)? }).await? {
            QueueReply::Done(result) => Ok(Some(Progress::Done(result))),
            QueueReply::Pending => Ok(Some(Progress::Pending)),
            QueueReply::Unknown => Ok(None),
            other => Err(unexpected(&Reply::Queue(other))),
        }
    }

    /// Waits for the result of an entry. It asks the store repeatedly, at growing intervals of up
    /// to half a second.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](leasehold::Error::Invalid) if no such entry is known, else
    /// [`Error::Store`](leasehold::Error::Store).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn result(&self, id: impl AsRef<str>) -> Result<Vec<u8>> {
        let mut pause = ASK_FIRST;
        loop {
            match self.progress(id.as_ref()).await? {
                Some(Progress::Done(result)) => return Ok(result),
                Some(Progress::Pending) => tokio::time::sleep(pause).await,
                None => {
                    let why = format!("no entry {} is known: push it first", id.as_ref());
                    return Err(InvalidInput::new("entry", why).into());
                }
            }
            pause = (pause * 3 / 2).min(ASK_LAST);
        }
    }

    /// Opens the queue for a holder. This does no I/O: [`Drain::take`] installs the token and reads
    /// in one step.
    pub fn open(&self, fence: impl Into<Fence>) -> Drain {
        let part = self.part.clone().guarded(fence);
        Drain { queue: Self { part, remember: self.remember } }
    }

    async fn step(&self, action: QueueAction) -> Result<QueueReply> {
        match self.part.apply(Action::Queue(action)).await?.reply {
            Reply::Queue(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }
}

/// A queue that the holder of a lease has opened.
#[derive(Clone, Debug)]
pub struct Drain {
    queue: Queue,
}

impl Drain {
    /// Installs the token, so that older holders can no longer finish entries, and returns the
    /// oldest entries. `limit` is 1 to 64. The entries stay in the queue until they are finished.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`](leasehold::Error::Fenced) if this lease was overtaken.
    pub async fn take(&self, limit: usize) -> Result<Vec<Entry>> {
        if !(1..=MAX_BATCH).contains(&limit) {
            let why = format!("{limit} entries at once: give 1 to {MAX_BATCH}");
            return Err(InvalidInput::new("limit", why).into());
        }
        match self.queue.step(QueueAction::Take { limit: limit as u64 }).await? {
            QueueReply::Entries(entries) => Ok(entries),
            other => Err(unexpected(&Reply::Queue(other))),
        }
    }

    /// Stores the results of up to 64 entries and removes these entries, in one step. Returns how
    /// many of them were waiting. A repeated result changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`](leasehold::Error::Fenced): a newer holder has taken over, so the caller
    /// must stop.
    pub async fn finish<R: Into<Vec<u8>>>(
        &self,
        results: impl IntoIterator<Item = (Id, R)>,
    ) -> Result<u64> {
        let results: Vec<_> = results.into_iter().map(|(id, result)| (id, result.into())).collect();
        if results.len() > MAX_BATCH {
            let why = format!("{} results at once: give at most {MAX_BATCH}", results.len());
            return Err(InvalidInput::new("results", why).into());
        }
        for (_, result) in &results {
            check_size("result", result.len(), MAX_PAYLOAD_BYTES)?;
        }
        let remember_us = remember_us(self.queue.remember)?;
        match self.queue.step(QueueAction::Finish { results, remember_us }).await? {
            QueueReply::Finished(count) => Ok(count),
            other => Err(unexpected(&Reply::Queue(other))),
        }
    }

    /// Processes entries until the queue is empty, and returns their number. Each result is stored
    /// before the next entry begins, so a crash repeats at most the current entry. A worker that
    /// can process a batch as a whole uses [`take`](Drain::take) and [`finish`](Drain::finish).
    ///
    /// # Errors
    ///
    /// The error of `work`: the entry that failed stays in the queue. Also
    /// [`Error::Fenced`](leasehold::Error::Fenced) and [`Error::Store`](leasehold::Error::Store),
    /// as `E`.
    ///
    /// # Cost
    ///
    /// One round trip per entry, and one more per 64 entries.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the current entry in the queue.
    pub async fn drain<R, E>(
        &self,
        mut work: impl AsyncFnMut(&Entry) -> std::result::Result<R, E>,
    ) -> std::result::Result<u64, E>
    where
        R: Into<Vec<u8>>,
        E: From<Error>,
    {
        let mut done = 0;
        loop {
            let entries = self.take(MAX_BATCH).await?;
            if entries.is_empty() {
                return Ok(done);
            }
            for entry in entries {
                let result = work(&entry).await?;
                done += self.finish([(entry.id, result)]).await?;
            }
        }
    }
}
