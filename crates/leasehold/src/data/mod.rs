//! Data that needs no lock: stock, order numbers, shared queues and guarded cells, each step one
//! atomic command at the store.
//!
//! A lock around "read, decide, write" costs several round trips and lets one caller in at a time.
//! Where the decision is simple enough to be made at the store, one command does it for everybody
//! at once. `docs/do-you-need-a-lock.md` tells which is for what, and `examples/flash_sale`
//! measures it.
//!
//! ```
//! use leasehold::Data;
//! use leasehold::data::Outcome;
//!
//! # #[tokio::main]
//! # async fn main() -> leasehold::Result<()> {
//! let data = Data::memory(); // or Data::connect("redis://10.0.0.5/").await?
//! let stock = data.stock("shop");
//! stock.restock("delivery-1", [("lamp", 10), ("bulb", 10)]).await?;
//!
//! // All or nothing, and once, however often it is asked for again.
//! let outcome = stock.deduct("order-17", [("lamp", 1), ("bulb", 4)]).await?;
//! assert!(matches!(outcome, Outcome::Deducted { again: false, .. }));
//!
//! let numbers = data.numbers("invoices").dated(0).width(10);
//! println!("invoice {}", numbers.next().await?); // invoice 20261120-4921700318
//! # Ok(())
//! # }
//! ```

mod cell;
mod numbers;
mod queue;
mod stock;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::data::{Action, Answer, Fence, Id, Reply, Request};
use leasehold_core::{Error, Invalid, Result, StoreError, StoreErrorKind};

use crate::store::{self, DataStore, Memory};

pub use self::cell::{Cell, Opened, Versioned};
pub use self::numbers::{Number, Numbers};
pub use self::queue::{Drain, Progress, Queue};
pub use self::stock::{Outcome, Stock};
pub use leasehold_core::data::queue::Entry;

/// How long orders and results are remembered unless said otherwise: 24 h. A retry that comes later
/// than that is a new day's mistake, not a lost reply; a hundred thousand orders take some 30 MB.
pub const DEFAULT_REMEMBER: Duration = Duration::from_hours(24);

/// What that may be: long enough for any retry to arrive, and at most a year.
const REMEMBER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24 * 365));

/// Gives the data parts of one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Data {
    store: Arc<dyn DataStore>,
}

impl Data {
    /// Opens the store that a URL names, as [`Client::connect`](crate::Client::connect).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the part of the URL that is wrong; [`Error::Store`] says why the
    /// store could not be opened.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Ok(Self::new(store::connect_data(url.as_ref()).await?))
    }

    /// Data of this process, without a server: for embedding, and for tests.
    pub fn memory() -> Self {
        Self::new(Memory::new())
    }

    /// The data of a store.
    pub fn new(store: impl DataStore) -> Self {
        Self { store: Arc::new(store) }
    }

    /// One value that only the newest holder of a lock, or whoever knows its version, may replace.
    pub fn cell(&self, name: impl AsRef<str>) -> Cell {
        Cell::new(self.part("cell", name))
    }

    /// Numbers that are given out once, to whatever machine.
    pub fn numbers(&self, name: impl AsRef<str>) -> Numbers {
        Numbers::new(self.part("sequence", name))
    }

    /// Work that producers append and whoever holds a lease does.
    pub fn queue(&self, name: impl AsRef<str>) -> Queue {
        Queue::new(self.part("queue", name))
    }

    /// Pieces on a shelf. In a cluster, one stock lives in one slot.
    pub fn stock(&self, name: impl AsRef<str>) -> Stock {
        Stock::new(self.part("stock", name))
    }

    fn part(&self, what: &'static str, name: impl AsRef<str>) -> Part {
        Part { store: Arc::clone(&self.store), name: Id::new(what, name), fence: None }
    }
}

/// One record of one part, and on whose lease it is used.
#[derive(Clone, Debug)]
struct Part {
    store: Arc<dyn DataStore>,
    name: Result<Id, Invalid>,
    fence: Option<Fence>,
}

impl Part {
    fn guarded(mut self, fence: impl Into<Fence>) -> Self {
        self.fence = Some(fence.into());
        self
    }

    async fn apply(&self, action: Action) -> Result<Answer> {
        let name = self.name.clone()?;
        let request = Request { name, fence: self.fence.clone(), action };
        let answer = self.store.apply(request).await?;
        match (&answer.reply, &self.fence) {
            (Reply::Fenced(newest), Some(fence)) => Err(fence.overtaken_by(*newest)),
            _ => Ok(answer),
        }
    }

    fn mismatch(&self, what: &str) -> Error {
        let name = self.name.as_ref().map(Id::as_str).unwrap_or_default();
        StoreError::new(StoreErrorKind::Mismatch, format!("{name}: {what}")).into()
    }
}

/// A reply that belongs to another question.
fn unexpected(reply: &Reply) -> Error {
    let text = format!("the store gave an answer that does not fit the question: {reply:?}");
    StoreError::new(StoreErrorKind::Corrupt, text).maybe_executed().into()
}

fn remember_us(span: Duration) -> Result<u64, Invalid> {
    in_range("remember", span, REMEMBER)
}

/// A span in microseconds.
fn in_range(
    what: &'static str,
    span: Duration,
    (least, most): (Duration, Duration),
) -> Result<u64, Invalid> {
    if span < least || span > most {
        let show = leasehold_core::show_duration;
        let (span, least, most) = (show(span), show(least), show(most));
        let why = format!("`{what}` is {span}: give {least} to {most}");
        return Err(Invalid::new(what, why));
    }
    Ok(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

fn check_size(what: &'static str, bytes: usize, most: usize) -> Result<(), Invalid> {
    if bytes > most {
        return Err(Invalid::new(
            what,
            format!("the {what} has {bytes} bytes: give at most {most}"),
        ));
    }
    Ok(())
}
