//! Requests to the data parts, and their answers.

use leasehold::FencingToken;
use leasehold::fence::Fence;

use super::id::Id;
use super::numbers::{NumbersReply, Plan};
use super::stock::{StockAction, StockReply};

/// One step of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the record.
    pub name: Id,
    /// The fence of the lease under which the step is done. An overtaken fence is refused.
    pub fence: Option<Fence>,
    /// The step to do.
    pub action: Action,
}

/// A step, by the part that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Takes numbers of a sequence.
    Numbers {
        /// The number of numbers; with a floor, at most `LEAD_US / step_us`.
        count: u64,
        /// How numbers grow.
        plan: Plan,
    },
    /// A step on a stock.
    Stock(StockAction),
}

/// The reply to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The reply of a sequence of numbers.
    Numbers(NumbersReply),
    /// The step was not done: this newer token of the fence's lock has been seen.
    Fenced(FencingToken),
    /// The reply of a stock.
    Stock(StockReply),
}

/// A reply, and the store's time in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The time of the step.
    pub now_us: u64,
    /// The outcome of the step.
    pub reply: Reply,
}
