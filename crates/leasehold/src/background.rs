//! The one background thread of a process: it drives the keepers of all clients, and the work that
//! a store must finish for callers that no longer wait.

use std::cell::Cell;
use std::future::pending;
use std::io;
use std::sync::OnceLock;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{BoxFuture, Clock, StoreError, StoreErrorKind};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::mutex::Mutex;
use crate::process::PerProcess;
#[cfg(test)]
use crate::sync::explored;

thread_local! {
    static IS_THE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// The runtime of the thread, and whether the thread runs. A forked child has its own thread.
static THREAD: PerProcess<(OnceLock<Runtime>, Mutex<bool>)> = PerProcess::new();

/// Runs a task to its end: on the thread, or on the caller's runtime if a test moves the clock.
///
/// # Errors
///
/// If the thread cannot be started, or if the caller has no runtime.
pub(crate) fn spawn(clock: &dyn Clock, task: BoxFuture<'static, ()>) -> Result<(), StoreError> {
    #[cfg(test)]
    if explored::is_on() {
        explored::spawn(task);
        return Ok(());
    }
    if !clock.is_driven_by_caller() && !bugs::is_on(Bug::KeeperOnCallersRuntime) {
        let runtime = driven().map_err(|error| {
            let message = format!("the keeper's thread could not be started: {error}");
            StoreError::new(StoreErrorKind::Full, message).with_source(error)
        })?;
        runtime.spawn(task);
        return Ok(());
    }
    let runtime = Handle::try_current().map_err(|error| {
        let message = "a clock that a test moves needs the test's tokio runtime";
        StoreError::new(StoreErrorKind::Unsupported, message).with_source(error)
    })?;
    runtime.spawn(task);
    Ok(())
}

/// Whether the caller runs on the background thread, which must never block.
pub(crate) fn is_this_thread() -> bool {
    IS_THE_THREAD.get()
}

/// The runtime that the thread drives. The first call starts the thread, which then lives as long
/// as the process: nobody can know which client of a process is the last.
fn driven() -> io::Result<&'static Runtime> {
    let (slot, is_driven) = THREAD.this();
    let mut is_driven = is_driven.lock();
    let runtime = runtime_in(slot)?;
    if !*is_driven {
        let drive = move || {
            IS_THE_THREAD.set(true);
            runtime.block_on(pending::<()>());
        };
        std::thread::Builder::new().name("leasehold-keeper".to_owned()).spawn(drive)?;
        *is_driven = true;
    }
    Ok(runtime)
}

/// The runtime in a place, which the first call makes.
pub(crate) fn runtime_in(slot: &OnceLock<Runtime>) -> io::Result<&Runtime> {
    if let Some(runtime) = slot.get() {
        return Ok(runtime);
    }
    let made = Builder::new_current_thread().enable_all().build()?;
    // Another thread may have been faster. Then our runtime, on which nothing runs, is dropped.
    Ok(slot.get_or_init(|| made))
}
