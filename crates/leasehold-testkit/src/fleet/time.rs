//! Time that passes when nobody has anything left to do.

use std::future::Future;
use std::io;

use leasehold::time::{Clock, FakeClock};

/// Runs `work` and all tasks that it spawns. Whenever each of them waits, the clock is moved to the
/// next timer: no instant is skipped, and none lasts longer than its work.
///
/// Until `work` has ended, some timer must be set whenever all tasks wait. Otherwise this never
/// returns.
///
/// # Errors
///
/// If the runtime cannot be built.
pub fn run<T>(clock: &FakeClock, work: impl Future<Output = T>) -> io::Result<T> {
    let moved = clock.clone();
    let next = move || {
        if let Some(at) = moved.next_timer() {
            moved.advance(at.saturating_since(moved.now()));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().on_thread_park(next).build()?;
    Ok(runtime.block_on(work))
}
