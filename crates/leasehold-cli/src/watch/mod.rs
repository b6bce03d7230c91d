//! The picture of a store that `top` and `serve` share: which locks are held and awaited, and by
//! whom.
//!
//! [`Picture`] has all that is known of the locks, and decides which lock to look at next; it does
//! no I/O. [`Watcher`] looks at a store within a budget, and keeps a picture up to date. This
//! module never writes to the store.

mod deadlocks;
mod history;
mod picture;
mod row;
mod scanner;

pub(crate) use self::deadlocks::{Deadlock, Wait, deadlocks};
pub(crate) use self::history::{History, Who};
pub(crate) use self::picture::{Availability, Order, Picture, Selection, Totals};
pub(crate) use self::row::{ANOTHER, Row, look};
pub(crate) use self::scanner::{Timekeeper, Watcher};
