//! The events and losses to report, in a bounded queue that one Python thread reads.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use leasehold::event::Event;
use leasehold::process::PerProcess;
use leasehold::{LockName, LossReason};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{Failure, full};
use crate::events::{Told, told, warns};
use crate::process::lock;
use crate::wake::Wake;

/// The most events that wait in the queue, some 3 MB. Further events are counted and dropped.
const MOST: usize = 10_000;

/// How long a Python thread waits in one call: 1 s. Then it can handle other things.
const PATIENCE: Duration = Duration::from_secs(1);

/// One item of the queue.
enum Item {
    /// An event of the client with this number.
    Event(u64, Box<Told>),
    /// A watched lease was lost.
    Lost(u64, LossReason),
    /// A watched lease ended without a loss, so its callback will not be called.
    Over(u64),
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    dropped: u64,
    is_closed: bool,
}

#[derive(Default)]
struct Channel {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// The descriptor for a reader that waits in an event loop instead of in `next_told`.
    wake: OnceLock<Wake>,
}

static CHANNEL: PerProcess<Channel> = PerProcess::new();

fn push(item: Item) {
    let channel = CHANNEL.this();
    let mut queue = lock(&channel.queue);
    // Items of callbacks are never dropped: each registered callback adds one item at most.
    if queue.items.len() >= MOST && matches!(item, Item::Event(..)) {
        queue.dropped += 1;
        return;
    }
    queue.items.push_back(item);
    channel.ring();
}

impl Channel {
    fn ring(&self) {
        self.changed.notify_all();
        if let Some(wake) = self.wake.get() {
            wake.ring();
        }
    }
}

/// Closes the queue, so that its thread ends.
#[pyfunction]
pub(crate) fn end_told() {
    let channel = CHANNEL.this();
    lock(&channel.queue).is_closed = true;
    channel.ring();
}

/// A descriptor that is readable when the queue has items, for a reader that waits in an event
/// loop.
#[pyfunction]
pub(crate) fn told_descriptor() -> Result<i32, Failure> {
    let channel = CHANNEL.this();
    if channel.wake.get().is_none() {
        let wake = Wake::new();
        let wake = wake.map_err(|error| full("no descriptor for events", &error))?;
        // If another thread was faster, its descriptor is used.
        let _ = channel.wake.set(wake);
    }
    // Items may have come before the descriptor existed.
    channel.ring();
    Ok(channel.wake.get().map_or(-1, Wake::descriptor))
}

/// The next items as a list of tuples, and the number of dropped events; `None` once the queue is
/// closed and empty. With `waits`, waits a moment for items; the list may be empty.
#[pyfunction]
pub(crate) fn next_told(py: Python<'_>, waits: bool) -> PyResult<Option<(Vec<Py<PyTuple>>, u64)>> {
    let taken = py.detach(|| {
        let channel = CHANNEL.this();
        let mut queue = lock(&channel.queue);
        if let Some(wake) = channel.wake.get() {
            wake.clear();
        }
        while waits && queue.items.is_empty() && !queue.is_closed {
            let waited = channel.changed.wait_timeout(queue, PATIENCE);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_over = queue.items.is_empty() && queue.is_closed;
        let dropped = std::mem::take(&mut queue.dropped);
        (!is_over).then(|| (std::mem::take(&mut queue.items), dropped))
    });
    let Some((items, dropped)) = taken else { return Ok(None) };
    let tuples = items.into_iter().map(|item| item.into_tuple(py)).collect::<PyResult<_>>()?;
    Ok(Some((tuples, dropped)))
}

impl Item {
    fn into_tuple(self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let tuple = match self {
            Self::Lost(key, reason) => ("lost", key, reason.as_str()).into_pyobject(py)?,
            Self::Over(key) => ("over", key).into_pyobject(py)?,
            Self::Event(client, told) => {
                let warns = told.warns;
                ("event", client, warns, told.into_fields(py)?).into_pyobject(py)?
            }
        };
        Ok(tuple.unbind())
    }
}

/// The key of a callback for the loss of a lease.
pub(crate) struct Callback(Option<u64>);

impl Callback {
    pub(crate) fn new(key: u64) -> Self {
        Self(Some(key))
    }

    pub(crate) fn call(mut self, reason: LossReason) {
        if let Some(key) = self.0.take() {
            push(Item::Lost(key, reason));
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(key) = self.0.take() {
            push(Item::Over(key));
        }
    }
}

/// The most names for which a wait for the same process is remembered: some 100 KB.
const MOST_OWN: usize = 1_000;

/// Reports the events of a client in one process.
pub(crate) struct Teller {
    client: u64,
    /// Whether a listener wants all events, and not only those for the log.
    tells_all: bool,
    /// The names for which the log has reported a wait for the same process. Between threads this
    /// is ordinary contention, so each name is logged only once.
    own: Mutex<HashSet<LockName>>,
}

impl Teller {
    pub(crate) fn new(client: u64, tells_all: bool) -> Self {
        Self { client, tells_all, own: Mutex::default() }
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        let warns = self.warns(event);
        if self.tells_all || warns {
            let mut told = told(event);
            told.warns = warns;
            push(Item::Event(self.client, Box::new(told)));
        }
    }

    fn warns(&self, event: &Event<'_>) -> bool {
        let Event::Waiting { request, own: Some(_), cause: None, .. } = event else {
            return warns(event);
        };
        let mut own = lock(&self.own);
        own.len() < MOST_OWN && own.insert(request.name.clone())
    }
}
