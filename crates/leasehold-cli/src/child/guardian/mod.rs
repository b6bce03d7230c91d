//! The guardian: the parent of the command, and its only supervisor.
//!
//! ```text
//! leasehold run ──(control socket)── guardian ──(parent)── fork ⟶ CMD and its process group
//!  holds and renews the lease         holds the deadline
//! ```
//!
//! It is this same program, started by itself (`@guardian`) while leasehold still asks for the
//! lease, so the command need not wait for the guardian. It does one thing: it ends CMD and all
//! processes that CMD started, in any process group ([`descendants`]), by TERM first and KILL in
//! time. It does so in three cases: the deadline comes near and no renewal has moved it, leasehold
//! says that the lease is lost, or the control socket ends because leasehold died. So it works when
//! leasehold is killed with -9, and when it is stopped.
//!
//! If the guardian itself is killed, the kernel kills CMD (see [`exec`]), and leasehold the rest.
//! If it is stopped, leasehold continues it, and takes its place if that is of no use ([`watch`]).
//! Only if both are killed or both are stopped, something goes on.

pub(crate) mod descendants;
mod exec;
pub(crate) mod idle;
pub(crate) mod link;
mod process;
pub(crate) mod protocol;
mod reaper;
mod relaunch;
mod supervisor;
pub(crate) mod timing;
pub(crate) mod watch;

pub(crate) use self::process::main;
pub(crate) use self::relaunch::{MODE, relaunched, show_as_leasehold};
