//! The runtime of all commands that talk to a store.

use std::io;

use tokio::runtime::Builder;

use crate::report::{Failure, STORE};
use crate::signals;

/// Runs a future to its end. One thread is enough, because the keeper has a separate thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let failed = |error: io::Error| Failure::new(STORE, format!("cannot start: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let output = runtime.block_on(async {
        signals::survive_file_limits().map_err(failed)?;
        Ok(future.await)
    });
    // The shutdown does not wait for a host name that is still being looked up.
    runtime.shutdown_background();
    output
}
