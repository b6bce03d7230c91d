//! Pieces on a shelf, and the orders that took them.
//!
//! Every order is remembered for a while by its id, with its outcome. So a caller may repeat an
//! order after a lost reply, and a cancelled order stays cancelled even if its deduction arrives
//! later.

use std::collections::BTreeMap;

use leasehold::FencingToken;
use leasehold::fence::{Fence, Fences};

use super::due::Due;
use super::id::Id;
use super::limits::{COLLECT_BOUND, MAX_NUMBER};

/// The most items of one order: 64, the same limit as for the names that one call acquires.
pub const MAX_LINES: usize = 64;

/// The most pieces of one line: 10⁹.
pub const MAX_QUANTITY: u64 = 1_000_000_000;

/// The longest note of an order, in bytes.
pub const MAX_NOTE_BYTES: usize = 256;

/// A number of pieces of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The item.
    pub item: Id,
    /// The number of pieces.
    pub quantity: u64,
}

/// The state of a stock between two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// The pieces of each item that may still be taken.
    pub levels: BTreeMap<Id, u64>,
    /// The orders that are remembered, each until its due time.
    pub orders: Due<Order>,
    /// The highest token that was seen of each lock.
    pub fences: Fences,
}

/// The record of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The outcome of the order.
    pub state: OrderState,
    /// Its lines, ordered by item.
    pub lines: Vec<Line>,
    /// The note of the first caller.
    pub note: String,
    /// How long the order is remembered after it was settled.
    pub remember_us: u64,
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderState {
    /// The pieces are gone.
    Deducted,
    /// The pieces are set apart until the order is confirmed or its reservation ends.
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
        /// The id of the order.
        order: Id,
        /// How long the cancellation is remembered.
        remember_us: u64,
    },
    /// Makes a reservation final.
    Confirm {
        /// The id of the order.
        order: Id,
    },
    /// Reads how many pieces of each item may still be taken.
    Read {
        /// The items.
        items: Vec<Id>,
    },
    /// Adds the pieces of a delivery.
    Restock {
        /// The id of the delivery; a delivery with the same id counts once.
        order: Id,
        /// The delivered pieces.
        lines: Vec<Line>,
        /// How long the delivery is remembered.
        remember_us: u64,
    },
    /// Takes all pieces of an order or none.
    Take {
        /// The id of the order; an order with the same id is done once.
        order: Id,
        /// The wanted pieces, sorted by item, each item once.
        lines: Vec<Line>,
        /// The note to remember with the order.
        note: String,
        /// How long the order is remembered.
        remember_us: u64,
        /// Sets the pieces apart for this long; 0 takes them for good.
        reserve_us: u64,
    },
}

/// The outcome of a step on a stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockReply {
    /// More orders were due than one step collects, and their pieces may be those that are missing.
    /// Nothing else was done: ask again.
    Due,
    /// The pieces that may still be taken, in the order of the requested items.
    Levels(Vec<u64>),
    /// The id was used for something else.
    Mismatch,
    /// The level would exceed the largest number.
    Overflow,
    /// The state of the order.
    Settled {
        /// The outcome of the order.
        state: OrderState,
        /// The note of the first call.
        note: String,
        /// How long the state lasts: the rest of the reservation, or else the rest of the time for
        /// which the order is remembered.
        left_us: u64,
        /// Whether an earlier call had done the step.
        again: bool,
    },
    /// There is not enough of this item; nothing was taken.
    Short {
        /// The first such item, by name.
        item: Id,
        /// The number of pieces of the item that are available.
        available: u64,
    },
    /// No such order is remembered.
    Unknown,
}

/// Does one step.
///
/// # Errors
///
/// If a newer token of the lock of `fence` was seen: that token is the error, and nothing was done.
pub fn step(
    stock: &mut Stock,
    now_us: u64,
    fence: Option<&Fence>,
    action: &StockAction,
) -> Result<StockReply, FencingToken> {
    if let Some(Err(newest)) = fence.map(|fence| stock.fences.install(fence)) {
        return Err(newest);
    }
    // The order that this action names must be up to date, even if orders that were due earlier use
    // up `COLLECT_BOUND`. A confirmation after the end of a reservation is always too late.
    if let Some(order) = action.order() {
        while stock.orders.is_due(order, now_us) {
            stock.collect(order);
        }
    }
    for id in stock.orders.due(now_us, COLLECT_BOUND) {
        stock.collect(&id);
    }
    let reply = match action {
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
    };
    let is_about_levels = matches!(reply, StockReply::Levels(_) | StockReply::Short { .. });
    let is_late = is_about_levels && !stock.orders.due(now_us, 1).is_empty();
    Ok(if is_late { StockReply::Due } else { reply })
}

impl StockAction {
    /// The id of the order that this action names.
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

    /// Handles an order that is due: a reservation returns its pieces, any other order is
    /// forgotten.
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
            // A cancellation that overtook its order has recorded no lines.
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
            // The deduction of the order may still be on its way: it must find the cancelled order.
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
