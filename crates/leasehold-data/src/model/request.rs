//! What is asked of the data parts, and what they answer.

use leasehold::FencingToken;
use leasehold::fence::Fence;

use super::cell::{CellAction, CellReply};
use super::id::Id;
use super::numbers::{NumbersAction, NumbersReply};
use super::queue::{QueueAction, QueueReply};
use super::stock::{StockAction, StockReply};

/// One step of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the record.
    pub name: Id,
    /// On whose lease the step is done; refused if it was overtaken.
    pub fence: Option<Fence>,
    /// What to do.
    pub action: Action,
}

/// A step, by the part that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To a cell.
    Cell(CellAction),
    /// To a sequence of numbers.
    Numbers(NumbersAction),
    /// To a queue.
    Queue(QueueAction),
    /// To a stock.
    Stock(StockAction),
}

/// What a step answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A cell's.
    Cell(CellReply),
    /// A sequence's.
    Numbers(NumbersReply),
    /// A queue's.
    Queue(QueueReply),
    /// The step was not done: of the fence's lock, this token has been seen.
    Fenced(FencingToken),
    /// A stock's.
    Stock(StockReply),
}

/// A reply, and the store's time in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it was done.
    pub now_us: u64,
    /// What came of it.
    pub reply: Reply,
}
