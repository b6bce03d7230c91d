//! The local queues: the callers of one client that want one name.
//!
//! Callers that want the same lease stand in line, one behind the other. The first of a line asks
//! the store, and those behind it ask nobody. Its attempt belongs to the line: a caller that gives
//! up leaves the place at the store to the next. A released lease is passed on to the next without
//! the store, with a new token, for one slice. After that the line lets others have their turn, by
//! a release and a new acquire that are sent together. A yield needs no more: both are ordinary
//! requests. In either order of arrival, the line ends up behind the waiters at the store, or with
//! a fresh grant if nobody waits.
//!
//! Callers that the store has queued have places in its queue, and the keeper polls for them. Where
//! the store has no queue, callers take turns in the seat of the one that polls.

mod join;
mod pass_on;
mod places;
mod seat;

pub(crate) use self::seat::Poller;

#[cfg(test)]
mod tests;
