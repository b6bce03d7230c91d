//! The one background thread of a process: it drives the keepers of all clients, and what a store
//! must finish although nobody waits for it any more.

use std::sync::{Mutex, PoisonError};

use leasehold_core::{BoxFuture, Clock, StoreError, StoreErrorKind};
use tokio::sync::mpsc::{self, UnboundedSender};

type Task = BoxFuture<'static, ()>;

/// Where tasks for the thread go, once it runs.
static THREAD: Mutex<Option<UnboundedSender<Task>>> = Mutex::new(None);

/// Has a task driven to its end: by the thread, or by the caller's own runtime with a clock that a
/// test moves.
///
/// # Errors
///
/// When there is no thread to be had, or no runtime.
pub(crate) fn spawn(clock: &dyn Clock, task: Task) -> Result<(), StoreError> {
    if !clock.is_driven_by_caller() {
        return hand_over(task);
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(task);
            Ok(())
        }
        Err(error) => {
            let message = "a clock that a test moves needs the test's tokio runtime";
            Err(StoreError::new(StoreErrorKind::Unsupported, message).with_source(error))
        }
    }
}

/// Hands a task to the thread, which is started by the first one and lives as long as the process:
/// nobody could say when the last client of a process was made.
fn hand_over(task: Task) -> Result<(), StoreError> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    let task = match thread.as_ref() {
        Some(running) => match running.send(task) {
            Ok(()) => return Ok(()),
            Err(unsent) => unsent.0,
        },
        None => task,
    };
    let started = start()?;
    // It was started just now and holds the receiving end.
    let _ = started.send(task);
    *thread = Some(started);
    Ok(())
}

fn start() -> Result<UnboundedSender<Task>, StoreError> {
    let failed = |error: std::io::Error| {
        let message = format!("the keeper's thread could not be started: {error}");
        StoreError::new(StoreErrorKind::Full, message).with_source(error)
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (sender, mut receiver) = mpsc::unbounded_channel::<Task>();
    let drive = async move {
        while let Some(task) = receiver.recv().await {
            tokio::spawn(task);
        }
    };
    std::thread::Builder::new()
        .name("leasehold-keeper".to_owned())
        .spawn(move || runtime.block_on(drive))
        .map_err(failed)?;
    Ok(sender)
}
