//! The bridge to event loops: a thread with a runtime drives verbs, and what has ended goes into a
//! queue of each loop, whose descriptor wakes it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use leasehold::process::{MadeIn, PerProcess};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::errors::{Failure, full};
use crate::process::{self, lock, next_number};
use crate::queue::Queue;
use crate::verb::Verb;

static RUNTIME: PerProcess<OnceLock<Handle>> = PerProcess::new([const { OnceLock::new() }; _]);

/// The runtime of this process, whose thread lives as long as it.
fn runtime() -> Result<&'static Handle, Failure> {
    let slot = RUNTIME.this().map_err(leasehold::Error::from)?;
    if let Some(runtime) = slot.get() {
        return Ok(runtime);
    }
    let failed = |error: io::Error| full("no thread for asyncio", &error);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let mut made = None;
    // Another thread may be faster; then nothing runs on this runtime.
    let used = slot.get_or_init(|| {
        made = Some(runtime);
        handle
    });
    if let Some(runtime) = made {
        let run = move || {
            process::begin_thread();
            runtime.block_on(std::future::pending::<()>());
        };
        let thread = std::thread::Builder::new().name("leasehold-asyncio".to_owned());
        thread.spawn(run).map_err(failed)?;
    }
    Ok(used)
}

/// What a key of a loop stands for.
enum Wanted {
    /// A verb, and what ends it, unless it goes on.
    Verb(Option<AbortHandle>),
    /// The loss of a lease.
    Loss,
}

/// The verbs of one loop.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct Completions {
    /// Forgotten in a forked child: tasks are those of the parent's runtime.
    wanted: Mutex<HashMap<u64, Wanted>>,
    queue: Arc<Queue>,
    made_in: MadeIn,
}

#[pymethods]
impl Completions {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let queue = Queue::new();
        let queue = queue.map_err(|error| full("no descriptor for a loop", &error).raise(py))?;
        let (wanted, made_in) = (Mutex::default(), MadeIn::this());
        Ok(Self { wanted, queue: Arc::new(queue), made_in })
    }

    fn fileno(&self) -> i32 {
        self.queue.descriptor()
    }

    /// Begins a verb; [`take`](Self::take) gives what it ends with, under the key.
    fn begin(&self, py: Python<'_>, verb: &Verb) -> PyResult<u64> {
        process::begin(py)?;
        let (doing, goes_on) = verb.take(py)?;
        let runtime = runtime().map_err(|failure| failure.raise(py))?;
        let (key, queue) = (next_number(), Arc::clone(&self.queue));
        let mut wanted = lock(&self.wanted);
        let task = runtime.spawn(async move { queue.push(key, doing.await) });
        wanted.insert(key, Wanted::Verb((!goes_on).then(|| task.abort_handle())));
        Ok(key)
    }

    /// The caller of a verb no longer waits. A verb that goes on does so; what it gives is given
    /// back.
    pub(crate) fn cancel(&self, key: u64) {
        if let Some(Wanted::Verb(Some(task))) = lock(&self.wanted).remove(&key) {
            task.abort();
        }
    }

    /// What has ended and is still wanted: key, whether it failed, what it gave.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ended = self.queue.take();
        let list = PyList::empty(py);
        for (key, ended) in ended {
            if lock(&self.wanted).remove(&key).is_none() {
                continue;
            }
            match ended {
                Ok(done) => list.append((key, false, done.into_python(py)?))?,
                Err(failure) => list.append((key, true, failure.raise(py)))?,
            }
        }
        Ok(list)
    }

    /// Drops all verbs: the loop is closed.
    fn close(&self) {
        if self.made_in.is_another() {
            return;
        }
        for wanted in std::mem::take(&mut *lock(&self.wanted)).into_values() {
            if let Wanted::Verb(Some(task)) = wanted {
                task.abort();
            }
        }
        self.queue.close();
    }
}

impl Completions {
    /// Where the loss of a lease is to come, and under which key.
    pub(crate) fn want_loss(&self) -> (u64, Arc<Queue>) {
        let key = next_number();
        lock(&self.wanted).insert(key, Wanted::Loss);
        (key, Arc::clone(&self.queue))
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        if self.made_in.is_another() {
            std::mem::forget(std::mem::take(&mut self.wanted));
            std::mem::forget(Arc::clone(&self.queue));
        } else {
            self.close();
        }
    }
}
