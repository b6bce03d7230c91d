//! The runtime of all commands that talk to a store.

use crate::report::{Failure, STORE};
use crate::signals;

/// Runs a future to its end. One thread is enough, because the keeper has a separate thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.and_then(|runtime| {
        let within = runtime.enter();
        signals::survive_file_limits()?;
        drop(within);
        Ok(runtime)
    });
    let runtime = runtime.map_err(|error| Failure::new(STORE, format!("cannot start: {error}")))?;
    let output = runtime.block_on(future);
    // The shutdown does not wait for a host name that is still being looked up.
    runtime.shutdown_background();
    Ok(output)
}
