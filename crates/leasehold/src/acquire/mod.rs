//! Calls that ask for the lease of one name, of several names or of another process. A call that
//! gives up leaves nothing behind.

mod adopt;
mod call;
mod poller;
mod report;
mod request;
mod several;

pub(crate) use self::adopt::adopt;
pub(crate) use self::call::acquire;
pub(crate) use self::report::CallEvents;
pub(crate) use self::request::{Asked, Limit};
pub(crate) use self::several::{acquire_all, parse};
