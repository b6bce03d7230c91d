//! What is told, in a bounded queue from which one thread of Python's takes.

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

/// The most events that wait to be told, some 3 MB. Further ones are counted and dropped.
const MOST: usize = 10_000;

/// How long a thread waits for what is told before it looks around: 1 s.
const PATIENCE: Duration = Duration::from_secs(1);

/// One thing to tell.
enum Item {
    /// What happened to the client of this number.
    Event(u64, Box<Told>),
    /// A lease was lost that somebody wants to know of.
    Lost(u64, LossReason),
    /// A lease ended otherwise, so that nobody will be called.
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
    /// For who waits in a loop and not here.
    wake: OnceLock<Wake>,
}

static CHANNEL: PerProcess<Channel> = PerProcess::new(
    [const {
        Channel {
            queue: Mutex::new(Queue { items: VecDeque::new(), dropped: 0, is_closed: false }),
            changed: Condvar::new(),
            wake: OnceLock::new(),
        }
    }; _],
);

fn push(item: Item) {
    let Ok(channel) = CHANNEL.this() else { return };
    let mut queue = lock(&channel.queue);
    // A callback is never dropped: there are as many as somebody has registered.
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

/// Nothing more is told; the thread ends.
#[pyfunction]
pub(crate) fn end_told() {
    if let Ok(channel) = CHANNEL.this() {
        lock(&channel.queue).is_closed = true;
        channel.ring();
    }
}

/// A descriptor that is readable when there is something to tell, for who waits in a loop.
#[pyfunction]
pub(crate) fn told_descriptor() -> Result<i32, Failure> {
    let channel = CHANNEL.this()?;
    if channel.wake.get().is_none() {
        let wake = Wake::new();
        let wake = wake.map_err(|error| full("no descriptor for events", &error))?;
        // If somebody was faster, that one stands.
        let _ = channel.wake.set(wake);
    }
    // What was there before is to be told as well.
    channel.ring();
    Ok(channel.wake.get().map_or(-1, Wake::descriptor))
}

/// What is to be told next: a list of tuples, which is waited for or may be empty; none at the end.
#[pyfunction]
pub(crate) fn next_told(py: Python<'_>, waits: bool) -> PyResult<Option<(Vec<Py<PyTuple>>, u64)>> {
    let taken = py.detach(|| {
        let channel = CHANNEL.this().ok()?;
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

/// Who is called when a lease is lost.
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

/// The most names of which it is remembered that they waited for their own process: some 100 KB.
const MOST_OWN: usize = 1_000;

/// Tells of what happens to a client in one process.
pub(crate) struct Teller {
    client: u64,
    /// Whether somebody wants all events, and not only what goes into a log.
    tells_all: bool,
    /// The names of which it was told that their own process is waited for. Between threads that is
    /// contention as any other, so the log has it once.
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
        let Event::OwnLease { request, .. } = event else { return warns(event) };
        let mut own = lock(&self.own);
        own.len() < MOST_OWN && own.insert(request.name.clone())
    }
}
