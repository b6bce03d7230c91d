//! Messages: the inboxes of clients, and what is published of a name.

pub(crate) mod cluster_inbox;
pub(crate) mod subscription;

use leasehold_core::Message;

use crate::store::redis::layout::reply;

/// What was received, as a message; nothing if it was published by a stranger to this channel.
fn message(received: Option<Vec<u8>>) -> Option<Message> {
    received.map_or(Some(Message::Gap), |payload| reply::message(&payload))
}
