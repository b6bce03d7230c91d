//! The meaning of the data parts, as `leasehold_core::model` is for locks: stock, order numbers,
//! queues and guarded cells, each a record and a pure `step`.
//!
//! A store keeps one record per part and name and applies its step atomically. Time is the store's
//! wall clock in microseconds since 1970, because what is remembered here outlives a reboot.

pub mod cell;
pub mod due;
pub mod id;
pub mod numbers;
pub mod queue;
pub mod stock;

use leasehold::FencingToken;
use leasehold::fence::Fence;

pub use self::due::Due;
pub use self::id::Id;

/// Most records of the past that one step returns to the shelf or forgets: 64, which takes well
/// below a millisecond, and is as many as one step can add.
pub const COLLECT_BOUND: usize = 64;

/// The largest number of pieces, or order number, that is kept: 2⁵³ − 1, so that a script's doubles
/// and JavaScript hold it exactly.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

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

/// What to do, by the part it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To a cell.
    Cell(cell::Action),
    /// To a sequence of numbers.
    Numbers(numbers::Action),
    /// To a queue.
    Queue(queue::Action),
    /// To a stock.
    Stock(stock::Action),
}

/// What a step answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A cell's.
    Cell(cell::Reply),
    /// A sequence's.
    Numbers(numbers::Reply),
    /// A queue's.
    Queue(queue::Reply),
    /// The step was not done: of the fence's lock, this token has been seen.
    Fenced(FencingToken),
    /// A stock's.
    Stock(stock::Reply),
}

/// A reply, and the store's time in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it was done.
    pub now_us: u64,
    /// What came of it.
    pub reply: Reply,
}
