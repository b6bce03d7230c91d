//! Pieces on a shelf, and the orders that took them.
//!
//! Every order is remembered for a while by its id, with what came of it: so the same order may be
//! asked for again after a lost reply, and a cancelled one stays cancelled even if its deduction
//! arrives later.

use std::collections::BTreeMap;

use leasehold::FencingToken;
use leasehold::fence::{Fence, Fences};

use super::due::Due;
use super::id::Id;
use super::limits::{COLLECT_BOUND, MAX_NUMBER};

/// The most items of one order: 64, as names of one lock.
pub const MAX_LINES: usize = 64;

/// The most pieces of one line: 10⁹.
pub const MAX_QUANTITY: u64 = 1_000_000_000;

/// The longest note of an order, in bytes.
pub const MAX_NOTE_BYTES: usize = 256;

/// A number of pieces of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which.
    pub item: Id,
    /// How many.
    pub quantity: u64,
}

/// What a stock is between two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// What may still be taken.
    pub levels: BTreeMap<Id, u64>,
    /// The orders that are remembered, each until its time.
    pub orders: Due<Order>,
    /// The tokens that were seen.
    pub fences: Fences,
}

/// What is remembered of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What came of it.
    pub state: OrderState,
    /// Its lines, ordered by item.
    pub lines: Vec<Line>,
    /// What its first caller wanted to have remembered.
    pub note: String,
    /// How long it is remembered after it was settled.
    pub remember_us: u64,
}

/// What came of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderState {
    /// The pieces are gone.
    Deducted,
    /// The pieces are set apart until they are confirmed or the order's time comes.
    Reserved,
    /// The pieces came in: a delivery.
    Restocked,
    /// The pieces are back on the shelf, or were never taken.
    Returned,
}

/// A step on a stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockAction {
    /// Puts the pieces of an order back.
    Cancel {
        /// Which.
        order: Id,
        /// How long that is remembered.
        remember_us: u64,
    },
    /// Makes a reservation final.
    Confirm {
        /// Which.
        order: Id,
    },
    /// Tells what may still be taken of each.
    Read {
        /// Of which.
        items: Vec<Id>,
    },
    /// Adds what was delivered.
    Restock {
        /// The delivery; the same counts once.
        order: Id,
        /// What came.
        lines: Vec<Line>,
        /// How long the delivery is remembered.
        remember_us: u64,
    },
    /// Takes all of it or nothing.
    Take {
        /// The order; the same is done once.
        order: Id,
        /// What is wanted, ordered by item, each item once.
        lines: Vec<Line>,
        /// What to remember with it.
        note: String,
        /// How long it is remembered.
        remember_us: u64,
        /// Sets the pieces apart for this long; 0 takes them for good.
        reserve_us: u64,
    },
}

/// The outcome of a step on a stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockReply {
    /// What may still be taken, in the order of the question.
    Levels(Vec<u64>),
    /// The id was used for something else.
    Mismatch,
    /// More than can be counted.
    Overflow,
    /// How the order stands.
    Settled {
        /// What came of it.
        state: OrderState,
        /// The note of the first call.
        note: String,
        /// How long it stays so: the rest of a reservation, else of the memory.
        left_us: u64,
        /// Whether an earlier call had done it.
        again: bool,
    },
    /// There is not enough of this item; nothing was taken.
    Short {
        /// The first that is short, by name.
        item: Id,
        /// What there is of it.
        available: u64,
    },
    /// No such order is remembered.
    Unknown,
}

/// Does one step.
///
/// # Errors
///
/// The newest token that was seen of the lock of `fence`, if it is a newer one: nothing was done.
pub fn step(
    stock: &mut Stock,
    now_us: u64,
    fence: Option<&Fence>,
    action: &StockAction,
) -> Result<StockReply, FencingToken> {
    if let Some(Err(newest)) = fence.map(|fence| stock.fences.install(fence)) {
        return Err(newest);
    }
    // The order that is asked for must be seen as it stands now, even if others whose time came
    // earlier fill the bound: a confirmation after the end of a reservation is too late, always.
    if let Some(order) = action.order() {
        while stock.orders.is_due(order, now_us) {
            stock.collect(order);
        }
    }
    for id in stock.orders.due(now_us, COLLECT_BOUND) {
        stock.collect(&id);
    }
    Ok(match action {
        StockAction::Cancel { order, remember_us } => stock.cancel(now_us, order, *remember_us),
        StockAction::Confirm { order } => stock.confirm(now_us, order),
        StockAction::Read { items } => {
            StockReply::Levels(items.iter().map(|id| stock.level(id)).collect())
        }
        StockAction::Restock { order, lines, remember_us } => {
            stock.restock(now_us, order, lines, *remember_us)
        }
        StockAction::Take { order, lines, note, remember_us, reserve_us } => {
            let wanted = Order {
                state: if *reserve_us > 0 { OrderState::Reserved } else { OrderState::Deducted },
                lines: lines.clone(),
                note: note.clone(),
                remember_us: *remember_us,
            };
            let until_us = now_us + if *reserve_us > 0 { *reserve_us } else { *remember_us };
            stock.take(now_us, order, wanted, until_us)
        }
    })
}

impl StockAction {
    /// The order that it is about.
    pub fn order(&self) -> Option<&Id> {
        match self {
            Self::Cancel { order, .. }
            | Self::Confirm { order }
            | Self::Restock { order, .. }
            | Self::Take { order, .. } => Some(order),
            Self::Read { .. } => None,
        }
    }
}

impl Stock {
    fn level(&self, item: &Id) -> u64 {
        self.levels.get(item).copied().unwrap_or(0)
    }

    /// A time has come: a reservation returns, anything else is forgotten.
    fn collect(&mut self, id: &Id) {
        let Some((until_us, mut order)) = self.orders.remove(id) else { return };
        if order.state == OrderState::Reserved {
            self.put_back(&order.lines);
            order.state = OrderState::Returned;
            self.orders.put(id.clone(), until_us + order.remember_us, order);
        }
    }

    fn put_back(&mut self, lines: &[Line]) {
        for Line { item, quantity } in lines {
            let level = self.levels.entry(item.clone()).or_default();
            *level = (*level + quantity).min(MAX_NUMBER);
        }
    }

    fn take(&mut self, now_us: u64, id: &Id, wanted: Order, until_us: u64) -> StockReply {
        if let Some((until_us, found)) = self.orders.get(id) {
            // A cancel that overtook its order knows none of its lines.
            let is_same = found.state != OrderState::Restocked && found.lines == wanted.lines;
            return if is_same || found.lines.is_empty() {
                found.settled(*until_us - now_us, true)
            } else {
                StockReply::Mismatch
            };
        }
        let short = wanted.lines.iter().find(|line| self.level(&line.item) < line.quantity);
        if let Some(Line { item, .. }) = short {
            return StockReply::Short { item: item.clone(), available: self.level(item) };
        }
        for Line { item, quantity } in &wanted.lines {
            if let Some(level) = self.levels.get_mut(item) {
                *level -= quantity;
            }
        }
        self.settle(now_us, id, until_us, wanted)
    }

    fn restock(&mut self, now_us: u64, id: &Id, lines: &[Line], remember_us: u64) -> StockReply {
        if let Some((until_us, found)) = self.orders.get(id) {
            let is_same = found.state == OrderState::Restocked && found.lines == lines;
            return if is_same {
                found.settled(*until_us - now_us, true)
            } else {
                StockReply::Mismatch
            };
        }
        if lines.iter().any(|line| self.level(&line.item) + line.quantity > MAX_NUMBER) {
            return StockReply::Overflow;
        }
        self.put_back(lines);
        let state = OrderState::Restocked;
        let order = Order { state, lines: lines.to_vec(), note: String::new(), remember_us };
        self.settle(now_us, id, now_us + remember_us, order)
    }

    fn confirm(&mut self, now_us: u64, id: &Id) -> StockReply {
        let Some((until_us, found)) = self.orders.get(id) else { return StockReply::Unknown };
        match found.state {
            OrderState::Deducted | OrderState::Returned => found.settled(*until_us - now_us, true),
            OrderState::Reserved => {
                let order = Order { state: OrderState::Deducted, ..found.clone() };
                self.settle(now_us, id, now_us + order.remember_us, order)
            }
            OrderState::Restocked => StockReply::Mismatch,
        }
    }

    fn cancel(&mut self, now_us: u64, id: &Id, remember_us: u64) -> StockReply {
        let state = OrderState::Returned;
        let Some((until_us, found)) = self.orders.get(id).cloned() else {
            // The deduction of the order may still be on its way: it must find that the order was
            // cancelled.
            let order = Order { state, lines: Vec::new(), note: String::new(), remember_us };
            return self.settle(now_us, id, now_us + remember_us, order);
        };
        match found.state {
            OrderState::Deducted | OrderState::Reserved => {
                self.put_back(&found.lines);
                let order = Order { state, ..found };
                self.settle(now_us, id, now_us + order.remember_us, order)
            }
            OrderState::Restocked => StockReply::Mismatch,
            OrderState::Returned => found.settled(until_us - now_us, true),
        }
    }

    fn settle(&mut self, now_us: u64, id: &Id, until_us: u64, order: Order) -> StockReply {
        let reply = order.settled(until_us - now_us, false);
        self.orders.put(id.clone(), until_us, order);
        reply
    }
}

impl Order {
    fn settled(&self, left_us: u64, again: bool) -> StockReply {
        StockReply::Settled { state: self.state, note: self.note.clone(), left_us, again }
    }
}
