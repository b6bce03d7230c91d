//! What the programs of `src/bin` have in common. Each is the same application with another driver:
//! it takes the lease on an invoice, and charges it in a transaction under the fence.

use std::io::{Result, stdin};

/// Says that the lease is held, and waits for a line: whatever may hold up a process happens here.
///
/// # Errors
///
/// Those of the standard input.
pub fn dawdle() -> Result<()> {
    println!("held");
    stdin().read_line(&mut String::new()).map(drop)
}
