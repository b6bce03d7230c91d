//! Bounds of the data parts.

/// How many expired records one step forgets or returns to the shelf, at most: 64, so that a step
/// keeps others waiting for milliseconds only.
pub const COLLECT_BOUND: usize = 64;

/// The largest number of pieces, and the largest order number: 2⁵³ − 1, so that doubles in Lua
/// scripts and in JavaScript hold the number exactly.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;
