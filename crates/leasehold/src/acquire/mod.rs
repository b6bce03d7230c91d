//! Calls that ask for the lease of one name, of several names or of another process, or only
//! whether a name is free. A call that gives up leaves nothing behind.

mod adopt;
mod call;
mod report;
mod request;
mod retry;
mod several;
mod wait_free;
mod waiting;

pub(crate) use self::adopt::adopt;
pub(crate) use self::call::{CallEvents, acquire};
pub(crate) use self::request::{Asked, Limit};
pub(crate) use self::several::{Meanwhile, acquire_all, parse};
pub(crate) use self::wait_free::wait_free;
