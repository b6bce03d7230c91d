//! The bridge to event loops: a thread with a runtime drives verbs, and puts their results into the
//! queue of the loop, whose descriptor wakes the loop.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use leasehold::process::{MadeIn, PerProcess};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::errors::{Failure, full};
use crate::process::{self, lock, next_number};
use crate::queue::Queue;
use crate::verb::{Doing, Verb};

static RUNTIME: PerProcess<Mutex<Option<Handle>>> = PerProcess::new();

/// The runtime of this process. Its thread lives as long as the process.
fn runtime() -> Result<Handle, Failure> {
    let mut made = lock(RUNTIME.this());
    if let Some(handle) = &*made {
        return Ok(handle.clone());
    }
    let failed = |error: io::Error| full("no thread for asyncio", &error);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let run = move || {
        process::begin_thread();
        runtime.block_on(std::future::pending::<()>());
    };
    let thread = std::thread::Builder::new().name("leasehold-asyncio".to_owned());
    thread.spawn(run).map_err(failed)?;
    // Kept only once the thread runs: a verb on a runtime without a thread would never end.
    *made = Some(handle.clone());
    Ok(handle)
}

/// The kind of result that a key of a loop waits for.
enum Wanted {
    /// A verb that cannot be aborted: it continues without its caller, or has not reached its
    /// thread yet.
    Verb,
    /// A verb, and the handle that aborts it.
    Abortable(AbortHandle),
    /// The loss of a lease.
    Loss,
}

/// A verb on its way to the thread that drives it.
struct Begun {
    key: u64,
    doing: Doing,
    goes_on: bool,
}

/// The state that a loop shares with the thread.
struct Shared {
    wanted: Mutex<HashMap<u64, Wanted>>,
    queue: Arc<Queue>,
}

impl Shared {
    /// Begins the verbs that are still wanted. Runs in the thread that drives verbs.
    fn drive(&self, begun: Vec<Begun>) {
        let mut wanted = lock(&self.wanted);
        for Begun { key, doing, goes_on } in begun {
            let wanted = wanted.get_mut(&key);
            if wanted.is_none() && !goes_on {
                continue;
            }
            let queue = Arc::clone(&self.queue);
            let task = tokio::spawn(async move {
                if queue.put(key, doing.await) {
                    // The loop is woken once for all verbs that can end now: their tasks run before
                    // this one.
                    tokio::spawn(async move { queue.ring() });
                }
            });
            if let Some(wanted) = wanted.filter(|_| !goes_on) {
                *wanted = Wanted::Abortable(task.abort_handle());
            }
        }
    }
}

/// The verbs of one loop.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct Completions {
    /// Forgotten in a forked child: the tasks belong to the parent's runtime.
    shared: Arc<Shared>,
    /// Dropped in a forked child: [`RUNTIME`] has another clone, so nothing ends.
    runtime: Handle,
    /// The verbs that were begun since [`gather`](Self::gather).
    gathered: Mutex<Option<Vec<Begun>>>,
    made_in: MadeIn,
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> Result<Self, Failure> {
        let queue = Queue::new().map_err(|error| full("no descriptor for a loop", &error))?;
        let shared = Shared { wanted: Mutex::default(), queue: Arc::new(queue) };
        Ok(Self {
            shared: Arc::new(shared),
            runtime: runtime()?,
            gathered: Mutex::default(),
            made_in: MadeIn::this(),
        })
    }

    fn fileno(&self) -> i32 {
        self.shared.queue.descriptor()
    }

    /// Begins a verb, and returns the key under which [`take`](Self::take) returns its result.
    fn begin(&self, py: Python<'_>, verb: &Verb) -> PyResult<u64> {
        process::begin(py)?;
        let (doing, goes_on) = verb.take()?;
        let key = next_number();
        let begun = Begun { key, doing, goes_on };
        lock(&self.shared.wanted).insert(key, Wanted::Verb);
        let mut gathered = lock(&self.gathered);
        match &mut *gathered {
            Some(gathered) => gathered.push(begun),
            None => self.send(vec![begun]),
        }
        Ok(key)
    }

    /// From now on, begun verbs wait for [`hand_over`](Self::hand_over).
    fn gather(&self) {
        lock(&self.gathered).get_or_insert_default();
    }

    /// Hands over all gathered verbs together: the thread is woken once for all of them.
    fn hand_over(&self) {
        let gathered = lock(&self.gathered).take().unwrap_or_default();
        if self.made_in.is_another() {
            // The loop continues in a forked child, which does not have the thread.
            std::mem::forget(gathered);
        } else if !gathered.is_empty() {
            self.send(gathered);
        }
    }

    /// The caller of a verb no longer waits. A verb that continues without its caller is not
    /// aborted; its result is dropped, which releases a lease in it.
    pub(crate) fn cancel(&self, key: u64) {
        if let Some(Wanted::Abortable(task)) = lock(&self.shared.wanted).remove(&key) {
            task.abort();
        }
    }

    /// The results that are still wanted, as tuples of the key, whether the verb failed, and the
    /// result.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut ended = self.shared.queue.take();
        let mut unwanted = Vec::new();
        {
            let mut wanted = lock(&self.shared.wanted);
            let left = ended.extract_if(.., |(key, _)| wanted.remove(key).is_none());
            unwanted.extend(left);
        }
        let list = PyList::empty(py);
        for (key, ended) in ended {
            match ended {
                Ok(done) => list.append((key, false, done.into_python(py)?))?,
                Err(failure) => list.append((key, true, PyErr::from(failure)))?,
            }
        }
        Ok(list)
    }

    /// Aborts all verbs, because the loop is closed.
    fn close(&self) {
        if self.made_in.is_another() {
            return;
        }
        drop(lock(&self.gathered).take());
        for wanted in std::mem::take(&mut *lock(&self.shared.wanted)).into_values() {
            if let Wanted::Abortable(task) = wanted {
                task.abort();
            }
        }
        self.shared.queue.close();
    }
}

impl Completions {
    fn send(&self, begun: Vec<Begun>) {
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move { shared.drive(begun) });
    }

    /// A key and the queue for the loss of a lease.
    pub(crate) fn want_loss(&self) -> (u64, Arc<Queue>) {
        let key = next_number();
        lock(&self.shared.wanted).insert(key, Wanted::Loss);
        (key, Arc::clone(&self.shared.queue))
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        if self.made_in.is_another() {
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(std::mem::take(&mut self.gathered));
        } else {
            self.close();
        }
    }
}
