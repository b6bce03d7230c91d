//! The lines: callers of one client who want one name, one behind the other.
//!
//! The first of a line asks the store, and those behind it ask nobody. Its attempt belongs to the
//! line: whoever gives up leaves the place at the store to the next. A lease that is let go of is
//! passed on to the next without the store, with a token of its own, for one slice; after that the
//! line lets others have their turn, by a release and a new acquire that are sent together. That is
//! all a yield needs: both requests are the ones of always, and in whatever order they arrive, the
//! line ends up behind whoever waits there, or with a fresh grant where nobody does.
//!
//! Plain data: what is to be sent to a caller comes out as a [`Wakeup`], for after the lock.

mod by_name;
mod callers;
mod grants;
mod line;
mod outcome;
mod patience;

pub(crate) use self::by_name::Lines;
pub(crate) use self::outcome::{Begun, Left, Passed, Wakeup};

#[cfg(test)]
mod tests;
