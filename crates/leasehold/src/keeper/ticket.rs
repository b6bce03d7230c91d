//! The number of a place in line.

/// Drawn by a caller that joins a line: whoever has the lower one is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(super) u64);
