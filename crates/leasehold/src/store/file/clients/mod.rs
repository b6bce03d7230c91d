//! The clients of a file store: which are alive, what dead clients leave behind, and how to send a
//! client a message.

mod inbox;
mod liveness;
mod reap;
pub(crate) mod subscription;

pub(crate) use self::inbox::FileInbox;
pub(crate) use self::liveness::{Liveness, NO_PIPES};
pub(crate) use self::reap::{may_be_left, reap_dead_clients, watched};
