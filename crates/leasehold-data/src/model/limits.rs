//! Bounds of the data parts.

/// The most records of the past that one step returns to the shelf or forgets: 64, which takes well
/// below a millisecond, and is as many as one step can add.
pub const COLLECT_BOUND: usize = 64;

/// The largest number of pieces, or order number, that is kept: 2⁵³ − 1, so that a script's doubles
/// and JavaScript hold it exactly.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;
