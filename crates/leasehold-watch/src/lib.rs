//! Watching a store: who holds and awaits what, looked at again and again within a budget.
//!
//! [`Picture`] is what is known, and decides what to look at next; it does no I/O. [`Watcher`]
//! looks at a store and keeps a picture up to date. Nothing here writes to the store. It is made
//! for the command `leasehold`: what is public here may change in any release.
#![forbid(unsafe_code)]

mod budget;
mod change;
mod deadlocks;
mod history;
mod picture;
mod row;
mod scanner;

pub use self::change::{Change, Event, EventKind, Who};
pub use self::history::{Bar, History, SPAN_MS};
pub use self::picture::{Availability, Picture, Totals};
pub use self::row::Row;
pub use self::scanner::{Timekeeper, Update, Watcher};
