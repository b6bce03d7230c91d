//! The calls of this library for a thread that has no async runtime.

use std::sync::OnceLock;

use leasehold_core::{Error, InvalidInput, StoreError, StoreErrorKind};
use tokio::runtime::{Handle, Runtime};
use tokio::task::yield_now;

use crate::background;
use crate::process::PerProcess;

/// The runtime of each process. It outlives all clients, because the sockets of a client belong to
/// the runtime that opened them. A forked child has a new one: it shares the sockets of the other
/// with its parent.
static RUNTIME: PerProcess<OnceLock<Runtime>> = PerProcess::new();

/// Waits in this thread until a call has ended, and returns the outcome of the call. Any async call
/// of this library can be waited for, and so can an async block with several calls.
///
/// ```
/// use leasehold::Client;
/// use leasehold::blocking::wait;
///
/// # fn main() -> leasehold::Result<()> {
/// let client = Client::memory(); // or wait(Client::connect("redis://10.0.0.5/"))?
/// let guard = wait(client.mutex("migrate").acquire())?;
/// guard.on_lost(|reason| eprintln!("stop: {reason}"));
/// guard.ensure_held()?; // before each step of the work
/// wait(guard.release())?;
/// wait(client.close())
/// # }
/// ```
///
/// All threads of a process share one runtime, and the runtime stands still while no thread waits.
/// Renewals do not depend on it, since the keeper has a thread. Do not block inside the call, as in
/// the work of [`Lock::run`](crate::Lock::run): the waits of other threads stand still meanwhile.
/// A call ends before its time if a `tokio::select!` around it ends.
///
/// # Errors
///
/// The errors of the call. [`Error::Invalid`] inside an async runtime, because this call would
/// block it: use `.await` there. [`Error::Store`] if the system has no resources for a runtime.
pub fn wait<T, E: From<Error>>(call: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    if Handle::try_current().is_ok() {
        let why = "a blocking call inside an async runtime would block it: use `.await` there";
        return Err(Error::from(InvalidInput::new("runtime", why)).into());
    }
    let runtime = background::runtime_in(RUNTIME.this()).map_err(|error| {
        let message = format!("no runtime for the blocking call: {error}");
        Error::from(StoreError::new(StoreErrorKind::Full, message).with_source(error))
    })?;
    runtime.block_on(async {
        // While nobody waited, a server may have closed a connection. The first turn reads that
        // from the socket, and the second ends the connection.
        yield_now().await;
        yield_now().await;
        call.await
    })
}
