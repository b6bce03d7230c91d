//! Durability: the conditions under which a grant counts. Enough replicas have it, and the server
//! has forgotten nothing.
//!
//! An acquire asks for the [boot record](quarantine::Quarantine) in its own script, and is refused
//! there without a trace. If it left a token, holders could not take back their leases. All else is
//! asked for behind the scripts, on the same connection: the boot record because only what comes
//! after a grant can tell that nothing was forgotten before it, and
//! [WAIT](replication::Replication) because it counts acknowledgements of what its own connection
//! wrote. Where neither is asked for there is no [`Durability`] at all, and not a command more.
//!
//! A grant that does not count is left where it is, for the caller to take back. One attempt may
//! have two requests under way. While a replica hangs, the first may be answered "too few
//! replicas", and the second, a moment later, "yours". If the first took the grant back, the lock
//! would go to the next beside a holder that believes the second. Only the owner of the attempt
//! knows what it believes. It asks again; or it gives the attempt up, believes no answer to it from
//! then on, and cancels it. It takes an upgrade back with that upgrade's number. So a waiter that
//! was handed a lock keeps it, unbelieved, until its replicas have it: taken back, the lock would
//! be handed through the whole queue and leave nobody in it. If such a waiter dies, the lock is
//! free after its ttl, as after the death of any holder.

mod policy;
mod quarantine;
mod replication;
mod server;
mod wait_batch;

pub(crate) use self::policy::Durability;
pub(crate) use self::server::{Server, ServerDialer};
