//! Leases that outlive the command that took them: `take`, `give` and `renew`.
//!
//! ```text
//! leasehold take ──(stdin, stdout)── holder process ── store
//!  prints the handle, ends            renews until --for, --pid, give or a loss
//! leasehold give, renew ──(control socket)──┘
//! ```
//!
//! The holder process is another process of the program leasehold (`@holder`). It gets its task on
//! stdin, with the passwords. It acquires the lease in the process group of `take`, so that Ctrl-C
//! reaches it while it waits. Then it leaves the session and sends the handle. It goes on only if
//! `take` has printed the handle. Otherwise it releases the lease, because nobody could give it
//! back.

mod control;
mod handle;
mod holder;
mod launch;

pub(crate) use self::control::{Answer, Request, ask};
pub(crate) use self::handle::{Handle, HeldName};
pub(crate) use self::holder::main;
pub(crate) use self::launch::{MODE, take};
