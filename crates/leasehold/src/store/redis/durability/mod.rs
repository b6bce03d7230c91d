//! Durability: the conditions under which a grant counts. Enough replicas must have it, and the
//! server must have forgotten nothing.
//!
//! A script that may grant checks the [boot record](quarantine::Quarantine) in front, and a refusal
//! leaves no trace. If it left a token, holders could not take back their leases. The check
//! is for the run of the server to which the main connection leads. Each connection for WAIT leads
//! to the same run. [WAIT](replication::Replication) follows the scripts on such a
//! connection, and counts acknowledgements of the writes on it. If neither is needed, there is no
//! [`Durability`] at all.
//!
//! A grant that does not count stays at the server until the caller takes it back. One attempt may
//! have two requests under way. While a replica hangs, the first may be answered "too few
//! replicas", and the second, a moment later, "granted". If the first answer took the grant back,
//! the next waiter would get the lock, although a holder relies on the second answer. Only the
//! owner of the attempt knows which answer it relies on. The owner asks again; or it gives the
//! attempt up, ignores all later answers, and cancels the attempt. So a waiter that was handed a
//! lock keeps the grant, which counts as soon as enough replicas have it. If the grant were taken
//! back, the lock would be handed through the whole queue, and the queue would be empty. If such a
//! waiter dies, the lock is free after its ttl, as after the death of any holder.

mod policy;
mod quarantine;
mod replication;
mod server;
mod wait_batch;

pub(crate) use self::policy::Durability;
pub(crate) use self::server::{Server, ServerDialer};
