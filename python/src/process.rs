//! The state of one process: a forked child uses nothing of its parent, and the exit of the
//! interpreter releases everything.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::blocking::wait;
use leasehold::process::PerProcess;
use pyo3::prelude::*;

use crate::errors::Failure;

/// How often the end of the program checks whether the waiting threads have returned: every 1 ms.
const LOOK_EVERY: Duration = Duration::from_millis(1);

thread_local! {
    static IS_RUSTS: Cell<bool> = const { Cell::new(false) };
}

/// An object that can release everything it holds.
pub(crate) trait Close: Send + Sync {
    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>>;
}

/// The state that exists once per process.
#[derive(Default)]
pub(crate) struct State {
    /// Whether the event thread and the hook at the exit of the interpreter have been started.
    has_begun: AtomicBool,
    ends: AtomicBool,
    clients: Mutex<Vec<Weak<dyn Close>>>,
    /// How many threads wait in a verb.
    waits: AtomicUsize,
}

static STATE: PerProcess<State> = PerProcess::new();

/// Locks a mutex whose value no panic leaves half changed.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Whether the interpreter is shutting down, so that callers must stop waiting.
    pub(crate) fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }
}

/// Before the first verb of a process: starts the event thread, and registers the release of
/// everything at the exit of the interpreter.
pub(crate) fn begin(py: Python<'_>) -> PyResult<&'static State> {
    let state = STATE.this();
    if !state.has_begun.swap(true, Ordering::AcqRel) {
        let begun = py.import("leasehold._process").and_then(|it| it.call_method0("begin"));
        if begun.is_err() {
            // No thread could be started, for example: the next verb tries again.
            state.has_begun.store(false, Ordering::Release);
        }
        begun?;
    }
    Ok(state)
}

/// Remembers a client that was connected in this process, so that [`end`] closes it.
pub(crate) fn remember(client: Weak<dyn Close>) {
    let mut clients = lock(&STATE.this().clients);
    clients.retain(|client| client.strong_count() > 0);
    clients.push(client);
}

/// Counts a thread as waiting in a verb, until this is dropped.
pub(crate) struct Wait(&'static AtomicUsize);

impl Wait {
    pub(crate) fn begin(state: &'static State) -> Result<Self, Failure> {
        state.waits.fetch_add(1, Ordering::AcqRel);
        let wait = Self(&state.waits);
        if state.ends() { Err(Failure::Exit) } else { Ok(wait) }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Marks this thread as a Rust thread, which never takes the GIL.
pub(crate) fn begin_thread() {
    IS_RUSTS.set(true);
}

/// A number that is unique within this process.
pub(crate) fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Drops a value whose drop may block, without holding the GIL. A Rust thread does not have the
/// GIL, and does not take it.
pub(crate) fn drop_detached<T: Send>(value: T) {
    match IS_RUSTS.get() {
        true => drop(value),
        false => Python::attach(|py| py.detach(|| drop(value))),
    }
}

/// Ends all waits of this process and releases everything it holds, within `seconds`.
#[pyfunction]
pub(crate) fn end(py: Python<'_>, seconds: f64) -> Result<(), Failure> {
    let limit = Duration::from_secs_f64(seconds);
    py.detach(|| {
        let state = STATE.this();
        let until = Instant::now() + limit;
        state.ends.store(true, Ordering::Release);
        let clients: Vec<_> =
            lock(&state.clients).drain(..).filter_map(|it| it.upgrade()).collect();
        let closing = clients.iter().map(|client| client.close());
        let closing = async {
            // A lease that could not be released ends by its ttl, and nobody is left to report it
            // to.
            drop(tokio::time::timeout(limit, join_all(closing)).await);
            Ok::<_, Failure>(())
        };
        wait(closing)?;
        while state.waits.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    })
}
