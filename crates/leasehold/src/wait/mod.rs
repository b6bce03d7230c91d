//! One acquire call: asks, waits its turn, and leaves nothing behind when it gives up.

mod attempt;
mod call;
mod report;
mod request;
mod retry;

pub(crate) use self::call::{acquire, is_enough};
pub(crate) use self::request::{LEAVE_PATIENCE, Limit, Request};
