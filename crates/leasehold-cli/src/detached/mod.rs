//! Leases that outlive the command that took them: `take`, `give` and `renew`.
//!
//! ```text
//! leasehold take ──(stdin, stdout)── holder process ── store
//!  prints the handle, ends            renews until --for, --pid, give or a loss
//! leasehold give, renew ──(control socket)──┘
//! ```
//!
//! The holder process is this same program, started by itself (`@holder`), which is told over its
//! stdin what to do, passwords included. It acquires the lease, in the group of `take`, so that
//! keys reach it while it waits; then it leaves the session and says the handle. It goes on only
//! once `take` has printed the handle: a lease that nobody can give back is let go.

mod control;
mod directory;
mod handle;
mod holder;
mod launch;
mod log;

pub(crate) use self::control::{Answer, Request, ask};
pub(crate) use self::handle::{Handle, HeldName};
pub(crate) use self::holder::main;
pub(crate) use self::launch::{MODE, take};
