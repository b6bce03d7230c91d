//! The clients of a file store: which of them are alive, the leases and places of dead clients, and
//! messages to a client.

mod inbox;
mod liveness;
mod reap;
pub(crate) mod subscription;

pub(crate) use self::inbox::FileInbox;
pub(crate) use self::liveness::{Liveness, NO_PIPES};
pub(crate) use self::reap::{may_be_left, reap_dead_clients, watched};
