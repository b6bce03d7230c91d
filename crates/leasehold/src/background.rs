//! The one background thread of a process: it drives the keepers of all clients, and the work that
//! a store must finish for callers that no longer wait.

use std::cell::Cell;
use std::io;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::{BoxFuture, Clock, StoreError, StoreErrorKind};
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::mutex::Mutex;
use crate::process::PerProcess;
#[cfg(test)]
use crate::sync::explored;

type Task = BoxFuture<'static, ()>;

thread_local! {
    static IS_THE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// The channel to the thread, once the thread runs. A forked child has its own thread.
static THREAD: PerProcess<Mutex<Option<UnboundedSender<Task>>>> = PerProcess::new();

/// Runs a task to its end: on the thread, or on the caller's runtime if a test moves the clock.
///
/// # Errors
///
/// If the thread cannot be started, or if the caller has no runtime.
pub(crate) fn spawn(clock: &dyn Clock, task: Task) -> Result<(), StoreError> {
    #[cfg(test)]
    if explored::is_on() {
        explored::spawn(task);
        return Ok(());
    }
    if !clock.is_driven_by_caller() && !bugs::is_on(Bug::KeeperOnCallersRuntime) {
        return hand_over(task);
    }
    let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
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

/// Hands a task to the thread. The first task starts the thread, which then lives as long as the
/// process: nobody can know which client of a process is the last.
fn hand_over(task: Task) -> Result<(), StoreError> {
    let mut thread = THREAD.this().lock();
    let task = match thread.as_ref() {
        Some(running) => match running.send(task) {
            Ok(()) => return Ok(()),
            Err(unsent) => unsent.0,
        },
        None => task,
    };
    let started = start()?;
    // The thread was started just now and holds the receiving end, so the send succeeds.
    let _ = started.send(task);
    *thread = Some(started);
    Ok(())
}

fn start() -> Result<UnboundedSender<Task>, StoreError> {
    let failed = |error: io::Error| {
        let message = format!("the keeper's thread could not be started: {error}");
        StoreError::new(StoreErrorKind::Full, message).with_source(error)
    };
    let (sender, mut receiver) = mpsc::unbounded_channel::<Task>();
    let drive = async move {
        while let Some(task) = receiver.recv().await {
            tokio::spawn(task);
        }
    };
    // The thread makes the runtime that it runs. If the caller made the new runtime and no thread
    // could be started, the drop of the new one inside the caller's runtime would panic.
    let (report, begun) = std::sync::mpsc::channel();
    let run = move || {
        IS_THE_THREAD.set(true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, result) = runtime.map_or_else(|no| (None, Err(no)), |it| (Some(it), Ok(())));
        // The caller that starts the thread waits for this.
        let _ = report.send(result);
        if let Some(runtime) = runtime {
            runtime.block_on(drive);
        }
    };
    std::thread::Builder::new().name("leasehold-keeper".to_owned()).spawn(run).map_err(failed)?;
    let begun = begun.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")));
    begun.map_err(failed)?;
    Ok(sender)
}
