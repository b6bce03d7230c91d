//! The common part of the programs in `src/bin`. Each is the same application with another driver:
//! it takes the lease on an invoice, and charges it in a transaction under the fence.

use std::io::{Result, stdin};

/// Prints that the lease is held, and waits for a line. A pause here stands for any delay of a
/// process.
///
/// # Errors
///
/// The errors of the standard input.
pub fn dawdle() -> Result<()> {
    println!("held");
    stdin().read_line(&mut String::new()).map(drop)
}
