//! The bridge to event loops: a thread with a runtime drives verbs, and puts their results into the
//! queue of the loop, whose descriptor wakes the loop.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
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

/// A verb on its way to the thread that drives it: its key, and whether it continues without its
/// caller.
type Begun = (u64, Doing, bool);

/// The state that a loop shares with the thread.
struct Shared {
    /// What the loop waits for, by its key, and the handle that aborts it: none for a verb that
    /// continues without its caller or is not driven yet, and for the loss of a lease.
    wanted: Mutex<HashMap<u64, Option<AbortHandle>>>,
    queue: Arc<Queue>,
}

impl Shared {
    /// Lets the thread drive a verb, if it is still wanted.
    fn drive(&self, runtime: &Handle, (key, doing, goes_on): Begun) {
        let (mut wanted, queue) = (lock(&self.wanted), Arc::clone(&self.queue));
        if !goes_on && !wanted.contains_key(&key) {
            return;
        }
        let task = runtime.spawn(async move {
            if queue.put(key, doing.await) {
                // The loop is woken once for all verbs that can end now: their tasks run before
                // this one.
                tokio::spawn(async move { queue.ring() });
            }
        });
        if let Some(wanted) = wanted.get_mut(&key).filter(|_| !goes_on) {
            *wanted = Some(task.abort_handle());
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
        let (shared, gathered, made_in) = (Arc::new(shared), Mutex::default(), MadeIn::this());
        Ok(Self { shared, runtime: runtime()?, gathered, made_in })
    }

    fn fileno(&self) -> i32 {
        self.shared.queue.descriptor()
    }

    /// Begins a verb, and returns the key under which [`take`](Self::take) returns its result; no
    /// key, and the result, if the verb has ended.
    fn begin<'py>(
        &self,
        py: Python<'py>,
        verb: &Verb,
    ) -> PyResult<(Option<u64>, Option<Bound<'py, PyAny>>)> {
        process::begin(py)?;
        let mut doing = verb.take()?;
        let _within = self.runtime.enter();
        // Nothing is locked meanwhile: a new object may make Python run any code.
        let at_once = verb.at_once && lock(&self.gathered).is_none();
        if let Some(ended) = at_once.then(|| (&mut doing).now_or_never()).flatten() {
            return Ok((None, Some(ended?.into_python(py)?)));
        }
        let begun = (next_number(), doing, verb.goes_on);
        let key = begun.0;
        lock(&self.shared.wanted).insert(key, None);
        match &mut *lock(&self.gathered) {
            Some(gathered) => gathered.push(begun),
            None => self.shared.drive(&self.runtime, begun),
        }
        Ok((Some(key), None))
    }

    /// From now on, begun verbs wait for [`hand_over`](Self::hand_over).
    fn gather(&self) {
        lock(&self.gathered).get_or_insert_default();
    }

    /// Hands over all gathered verbs together, so that their requests travel together.
    fn hand_over(&self) {
        let gathered = lock(&self.gathered).take().unwrap_or_default();
        if self.made_in.is_another() {
            // The loop continues in a forked child, which does not have the thread.
            return std::mem::forget(gathered);
        }
        let (shared, runtime) = (Arc::clone(&self.shared), self.runtime.clone());
        self.runtime.spawn(async move {
            gathered.into_iter().for_each(|begun| shared.drive(&runtime, begun));
        });
    }

    /// The caller of a verb no longer waits. A verb that continues without its caller is not
    /// aborted; its result is dropped, which releases a lease in it.
    pub(crate) fn cancel(&self, key: u64) {
        if let Some(Some(task)) = lock(&self.shared.wanted).remove(&key) {
            task.abort();
        }
    }

    /// The results that are still wanted, as tuples of the key, whether the verb failed, and the
    /// result.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut ended = self.shared.queue.take();
        // Dropped once nothing is locked.
        let _unwanted: Vec<_> = {
            let mut wanted = lock(&self.shared.wanted);
            ended.extract_if(.., |(key, _)| wanted.remove(key).is_none()).collect()
        };
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
        let wanted = std::mem::take(&mut *lock(&self.shared.wanted));
        wanted.into_values().flatten().for_each(|task| task.abort());
        self.shared.queue.close();
    }
}

impl Completions {
    /// A key and the queue for the loss of a lease.
    pub(crate) fn want_loss(&self) -> (u64, Arc<Queue>) {
        let key = next_number();
        lock(&self.shared.wanted).insert(key, None);
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
