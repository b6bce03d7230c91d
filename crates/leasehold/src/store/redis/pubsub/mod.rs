//! Messages: the inboxes of clients, and what is published of a name.

pub(crate) mod cluster_inbox;
pub(crate) mod subscription;
