//! The local queues: the callers of one client that want one name.
//!
//! Callers that want the same lease stand in line, one behind the other. Only the first caller of a
//! line asks the store. The attempt belongs to the line: a caller that gives up leaves the place at
//! the store to the next. A released lease is passed on to the next without the store, with a new
//! token, for one slice. After that the line gives others their turn, by a release and a new
//! acquire that are sent together. Both are ordinary requests, so the store needs no special
//! request for a yield. In either order of arrival, the line ends up behind the waiters at the
//! store, or with a fresh grant if nobody waits.
//!
//! Callers that the store has queued have places in its queue, and the keeper polls for them. If
//! the store has no queue, the callers take turns in a seat, and the caller in the seat polls.

mod join;
mod pass_on;
mod places;
mod seat;

pub(crate) use self::seat::Poller;

#[cfg(test)]
mod tests;
