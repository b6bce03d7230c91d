//! Messages: the inboxes of clients, and the messages about a name.

pub(crate) mod cluster_inbox;
pub(crate) mod subscription;

use leasehold_core::Message;

use crate::store::redis::layout::reply;

/// Decodes a received payload; `None` if another program has published it to this channel.
fn message(received: Option<Vec<u8>>) -> Option<Message> {
    received.map_or(Some(Message::Gap), |payload| reply::message(&payload))
}
