//! Stock: an order takes all its pieces or none, once.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::error::{InvalidInput, StoreError, StoreErrorKind};
use leasehold::fence::Fence;
use leasehold::{Error, Result};

use crate::model::stock::{
    Line, MAX_LINES, MAX_NOTE_BYTES, MAX_QUANTITY, OrderState, StockAction, StockReply,
};
use crate::model::{Action, Id, Reply};
use crate::part::{DEFAULT_REMEMBER, Part, in_range, remember_us, unexpected};

/// How long pieces may be reserved: from 10 ms to 30 days.
const RESERVE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_hours(24 * 30));

/// Pieces of items, and the orders that took them. A level is never below zero, whatever crashes.
///
/// Every step is one script or transaction at the store. The caller chooses the id of an order, and
/// one id is deducted once. **If an error leaves it open whether the step was done
/// ([`StoreError::may_have_executed`]), call again with the same id.** An id is remembered for
/// [`remember`](Stock::remember) (24 h by default) after its order was settled; after that, the id
/// counts as new.
///
/// # Cancel safety
///
/// If the future of any method is dropped, the step may or may not be done: call again.
///
/// # Cost
///
/// Each call is one round trip. A step ends 64 orders whose time is over at the most. If more of
/// them may have the pieces that are missing or counted, each further 64 cost another round trip.
///
/// # Examples
///
/// A reservation whose pieces return by themselves when nobody pays:
///
/// ```
/// # use leasehold_data::Data;
/// # use std::time::Duration;
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// let stock = Data::memory().stock("shop");
/// stock.restock("delivery-1", [("lamp", 1)]).await?;
/// stock.reserve("order-1", [("lamp", 1)], Duration::from_secs(900)).await?;
/// assert_eq!(stock.level("lamp").await?, 0);
/// // … the customer pays …
/// assert!(stock.confirm("order-1").await?.is_taken());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a `Stock` does nothing until a verb is called"]
pub struct Stock {
    part: Part,
    remember: Duration,
    note: String,
}

/// The state of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StockOutcome {
    /// The order has its pieces for good.
    Deducted {
        /// The note of the first call.
        note: String,
        /// Whether an earlier call with this id had taken the pieces.
        again: bool,
    },
    /// The pieces are set apart.
    Reserved {
        /// The note of the first call.
        note: String,
        /// Whether an earlier call with this id had reserved the pieces.
        again: bool,
        /// The time from the store's answer until the pieces return, unless the order is confirmed.
        left: Duration,
    },
    /// The order was cancelled, or its reservation has ended: it has no pieces.
    Returned,
    /// There are not enough pieces; nothing was taken. This outcome is not remembered: call again
    /// after a delivery.
    Short {
        /// The first item, by name, of which there is not enough.
        item: String,
        /// The number of pieces of that item that are available.
        available: u64,
    },
    /// No such order is remembered.
    Unknown,
}

impl StockOutcome {
    /// Whether the order has its pieces, for good or for now.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Deducted { .. } | Self::Reserved { .. })
    }
}

impl Stock {
    pub(crate) fn new(part: Part) -> Self {
        Self { part, remember: DEFAULT_REMEMBER, note: String::new() }
    }

    /// The same stock under a lease: it refuses every step, even reading, once it has seen a higher
    /// token of this lock.
    ///
    /// [`level`](Stock::level) then installs the token before it reads. So an overtaken holder can
    /// no longer change the level that was returned.
    ///
    /// The stock remembers one token for each name of a lock, for ever. So guard it with the lock
    /// of a shop or a shelf, and not with one for each order.
    pub fn guarded(mut self, fence: impl Into<Fence>) -> Self {
        self.part = self.part.guarded(fence);
        self
    }

    /// A note of at most 256 bytes, such as an order number. [`deduct`](Stock::deduct) and
    /// [`reserve`](Stock::reserve) store it with the order, and return it when called again with
    /// the same id.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// How long an order is remembered after it was settled: 1 s to 365 days, 24 h by default.
    pub fn remember(mut self, span: Duration) -> Self {
        self.remember = span;
        self
    }

    /// Takes all pieces of an order for good, or none of them.
    ///
    /// Returns [`StockOutcome::Deducted`] or [`StockOutcome::Short`]; for an id that was seen
    /// before, the state of its order.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](leasehold::Error::Invalid) before anything is sent;
    /// [`Error::Fenced`](leasehold::Error::Fenced) if the lease was overtaken;
    /// [`Error::Store`](leasehold::Error::Store), of kind `Mismatch` if the id was used with other
    /// pieces.
    pub async fn deduct<I: AsRef<str>>(
        &self,
        order: impl AsRef<str>,
        lines: impl IntoIterator<Item = (I, u64)>,
    ) -> Result<StockOutcome> {
        self.take(order.as_ref(), check_lines(lines)?, 0).await
    }

    /// Sets all pieces of an order apart, or none. The pieces return by themselves after `span`, by
    /// the store's clock, unless the order is confirmed before.
    ///
    /// Returns [`StockOutcome::Reserved`] or [`StockOutcome::Short`]; for an id that was seen
    /// before, the state of its order.
    ///
    /// # Errors
    ///
    /// The same as [`deduct`](Stock::deduct).
    pub async fn reserve<I: AsRef<str>>(
        &self,
        order: impl AsRef<str>,
        lines: impl IntoIterator<Item = (I, u64)>,
        span: Duration,
    ) -> Result<StockOutcome> {
        let reserve_us = in_range("reserve", span, RESERVE)?;
        self.take(order.as_ref(), check_lines(lines)?, reserve_us).await
    }

    async fn take(&self, order: &str, lines: Vec<Line>, reserve_us: u64) -> Result<StockOutcome> {
        let bytes = self.note.len();
        if bytes > MAX_NOTE_BYTES {
            let why = format!("the note has {bytes} bytes: give at most {MAX_NOTE_BYTES}");
            return Err(InvalidInput::new("note", why).into());
        }
        self.settle(StockAction::Take {
            order: Id::new("order", order)?,
            lines,
            note: self.note.clone(),
            remember_us: remember_us(self.remember)?,
            reserve_us,
        })
        .await
    }

    /// Makes a reservation final. A confirmation after the end of the reservation is always too
    /// late: it returns [`StockOutcome::Returned`], even if nobody has used the stock since.
    ///
    /// Returns [`StockOutcome::Deducted`], [`StockOutcome::Returned`] or [`StockOutcome::Unknown`].
    ///
    /// # Errors
    ///
    /// The same as [`deduct`](Stock::deduct), but a server without free memory still confirms.
    pub async fn confirm(&self, order: impl AsRef<str>) -> Result<StockOutcome> {
        self.settle(StockAction::Confirm { order: Id::new("order", order)? }).await
    }

    /// Puts the reserved or deducted pieces of an order back, once. If the order is not known, its
    /// deduction may still arrive, and then does nothing.
    ///
    /// Returns [`StockOutcome::Returned`].
    ///
    /// # Errors
    ///
    /// The same as [`deduct`](Stock::deduct), but a server without free memory still cancels.
    pub async fn cancel(&self, order: impl AsRef<str>) -> Result<StockOutcome> {
        let remember_us = remember_us(self.remember)?;
        self.settle(StockAction::Cancel { order: Id::new("order", order)?, remember_us }).await
    }

    /// Adds the pieces of a delivery; a delivery with the same id counts once.
    ///
    /// # Errors
    ///
    /// The same as [`deduct`](Stock::deduct).
    pub async fn restock<I: AsRef<str>>(
        &self,
        delivery: impl AsRef<str>,
        lines: impl IntoIterator<Item = (I, u64)>,
    ) -> Result<()> {
        let action = StockAction::Restock {
            order: Id::new("delivery", delivery)?,
            lines: check_lines(lines)?,
            remember_us: remember_us(self.remember)?,
        };
        match self.step(action).await? {
            StockReply::Settled { .. } => Ok(()),
            other => Err(self.refusal(other)),
        }
    }

    /// The number of pieces of one item that may still be taken: 0 for an unknown item.
    ///
    /// # Errors
    ///
    /// The same as [`deduct`](Stock::deduct).
    pub async fn level(&self, item: impl AsRef<str>) -> Result<u64> {
        Ok(self.levels([item]).await?.first().copied().unwrap_or(0))
    }

    /// The number of pieces of each item that may still be taken, at one moment, in the order of
    /// `items`.
    ///
    /// # Errors
    ///
    /// The same as [`deduct`](Stock::deduct).
    pub async fn levels<I: AsRef<str>>(
        &self,
        items: impl IntoIterator<Item = I>,
    ) -> Result<Vec<u64>> {
        let items = items.into_iter().map(|item| Id::new("item", item));
        let items = items.collect::<std::result::Result<Vec<_>, _>>()?;
        match self.step(StockAction::Read { items }).await? {
            StockReply::Levels(levels) => Ok(levels),
            other => Err(unexpected(&Reply::Stock(other))),
        }
    }

    async fn settle(&self, action: StockAction) -> Result<StockOutcome> {
        match self.step(action).await? {
            StockReply::Settled { state, note, left_us, again } => match state {
                OrderState::Deducted => Ok(StockOutcome::Deducted { note, again }),
                OrderState::Reserved => {
                    Ok(StockOutcome::Reserved { note, again, left: Duration::from_micros(left_us) })
                }
                OrderState::Restocked => Err(self.refusal(StockReply::Mismatch)),
                OrderState::Returned => Ok(StockOutcome::Returned),
            },
            StockReply::Short { item, available } => {
                Ok(StockOutcome::Short { item: item.to_string(), available })
            }
            StockReply::Unknown => Ok(StockOutcome::Unknown),
            other => Err(self.refusal(other)),
        }
    }

    async fn step(&self, action: StockAction) -> Result<StockReply> {
        loop {
            match self.part.apply(Action::Stock(action.clone())).await?.reply {
                Reply::Stock(StockReply::Due) => {}
                Reply::Stock(reply) => return Ok(reply),
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn refusal(&self, reply: StockReply) -> Error {
        match reply {
            StockReply::Mismatch => self.part.mismatch(
                "the id was used before with other pieces: give every order and every delivery \
                 a different id",
            ),
            StockReply::Overflow => {
                let why = "more pieces than can be counted, 2^53 - 1: look at the last delivery";
                StoreError::new(StoreErrorKind::Full, why).into()
            }
            other => unexpected(&Reply::Stock(other)),
        }
    }
}

/// The checked lines, sorted by item, each item once.
fn check_lines<I: AsRef<str>>(
    lines: impl IntoIterator<Item = (I, u64)>,
) -> std::result::Result<Vec<Line>, InvalidInput> {
    let refuse = |why: String| Err(InvalidInput::new("lines", why));
    let mut wanted = BTreeMap::new();
    for (item, quantity) in lines {
        let item = Id::new("item", item)?;
        if !(1..=MAX_QUANTITY).contains(&quantity) {
            return refuse(format!("{quantity} pieces of {item}: give 1 to {MAX_QUANTITY}"));
        }
        if wanted.insert(item.clone(), quantity).is_some() {
            return refuse(format!("{item} comes twice in one order: add the pieces up"));
        }
    }
    if !(1..=MAX_LINES).contains(&wanted.len()) {
        return refuse(format!("{} items in one order: give 1 to {MAX_LINES}", wanted.len()));
    }
    Ok(wanted.into_iter().map(|(item, quantity)| Line { item, quantity }).collect())
}
