//! The clients of a file store: who is alive, what the dead leave behind, and how to tell them
//! something.

mod inbox;
mod liveness;
mod reap;
pub(crate) mod subscription;

pub(crate) use self::inbox::FileInbox;
pub(crate) use self::liveness::{Liveness, NO_PIPES};
pub(crate) use self::reap::{may_be_left, reap_dead_clients, watched};
