//! The picture of a store that `top` and `serve` share: which locks are held and awaited, and by
//! whom.
//!
//! [`Picture`] has all that is known of the locks, and decides which lock to look at next; it does
//! no I/O. [`Watcher`] looks at a store within a budget, and keeps a picture up to date. This
//! module never writes to the store.

mod budget;
mod deadlocks;
mod history;
mod list;
mod picture;
mod row;
mod scanner;

pub use self::history::{Bar, History, SPAN_MS, Who};
pub use self::list::{Order, Selection};
pub use self::picture::{Availability, Picture, Totals};
pub use self::row::{ANOTHER, Look, Row, look};
pub use self::scanner::{Timekeeper, Watcher};
