//! The guardian: the parent of the command, and its only supervisor.
//!
//! ```text
//! leasehold run ──(control socket)── guardian ──(parent)── fork ⟶ CMD and its process group
//!  holds and renews the lease         holds the deadline
//! ```
//!
//! The guardian is another process of the program leasehold (`@guardian`). leasehold starts it
//! while it still asks for the lease, so the command need not wait for the guardian. The guardian
//! does one thing: it ends CMD and all processes that CMD started, in any process group
//! ([`descendants`]), by TERM first and KILL in time. It does so in three cases: the deadline comes
//! near and no renewal has moved it, leasehold says that the lease is lost, or the control socket
//! ends because leasehold died. So it also works if leasehold is killed with -9, or stopped.
//!
//! If the guardian itself is killed, the kernel kills CMD (see [`exec`]), and leasehold kills the
//! other processes. If the guardian is stopped, leasehold continues it; if that does not help,
//! leasehold does the guardian's work ([`watch`]). Processes of CMD survive only if leasehold and
//! the guardian are both killed or both stopped.

pub(crate) mod descendants;
mod exec;
pub(crate) mod idle;
pub(crate) mod link;
mod process;
pub(crate) mod protocol;
mod relaunch;
mod supervisor;
pub(crate) mod timing;
pub(crate) mod watch;

pub(crate) use self::process::main;
pub(crate) use self::relaunch::{MODE, relaunched, show_as_leasehold};
