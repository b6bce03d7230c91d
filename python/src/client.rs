//! The client: it connects on its first use, separately in each process.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use leasehold::error::InvalidInput;
use leasehold::event::Event;
use leasehold::process::PerProcess;
use leasehold::store::{self, check_url};
use leasehold::{Error, LeaseOptions};
use pyo3::prelude::*;
use tokio::sync::OnceCell;

use crate::done::Done;
use crate::errors::{Failure, refused};
use crate::options::Options;
use crate::process::{self, Close};
use crate::told::Teller;
use crate::verb::Verb;
use crate::watches::Watches;

/// A store in this process: its clients compete like separate machines. A forked child begins with
/// an empty store.
#[pyclass(frozen, name = "Memory", module = "leasehold")]
pub(crate) struct Memory(Arc<PerProcess<store::Memory>>);

#[pymethods]
impl Memory {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    fn __reduce__(&self) -> PyResult<()> {
        let text = "a Memory is in this process alone and does not pickle: use a file or Redis";
        Err(pyo3::exceptions::PyTypeError::new_err(text))
    }
}

enum Source {
    Url(String),
    Memory(Arc<PerProcess<store::Memory>>),
}

/// The part of a client that belongs to one process.
pub(crate) struct Made {
    pub(crate) client: leasehold::Client,
    pub(crate) watches: Arc<Watches>,
}

/// The state that a client shares with all objects that it makes.
pub(crate) struct Client {
    source: Source,
    pub(crate) defaults: LeaseOptions,
    /// The number of the client in its events, and whether all events are reported.
    tells: (u64, bool),
    /// A forked child connects anew.
    made: PerProcess<OnceCell<Made>>,
    is_closed: AtomicBool,
}

impl Client {
    /// The client of this process. The first call connects.
    pub(crate) async fn here(self: &Arc<Self>) -> Result<&Made, Failure> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::Closed.into());
        }
        let cell = self.made.this();
        if let Some(made) = cell.get() {
            return Ok(made);
        }
        let made = cell.get_or_try_init(|| self.make()).await?;
        // A `close` may have come meanwhile. It and this line both change the flag, so the later of
        // them sees what the other has done: `close` sees `made`, or this line sees the close.
        if self.is_closed.fetch_or(false, Ordering::AcqRel) {
            made.client.clone().close().await?;
            return Err(Error::Closed.into());
        }
        Ok(made)
    }

    async fn make(self: &Arc<Self>) -> Result<Made, Failure> {
        let watches = Arc::new(Watches::default());
        let (teller, watching) = (Teller::new(self.tells.0, self.tells.1), Arc::clone(&watches));
        let observer = move |event: &Event<'_>| {
            if let Event::Lost { lease, reason, .. } = event {
                watching.tell(lease.holder, *reason);
            }
            teller.tell(event);
        };
        let builder = leasehold::Client::builder();
        let builder = match &self.source {
            Source::Url(url) => builder.url(url),
            Source::Memory(memory) => builder.store(memory.this().clone()),
        };
        let builder = builder.defaults(self.defaults.clone()).observer(observer);
        let client = builder.build().await?;
        let this: Weak<Self> = Arc::downgrade(self);
        process::remember(this);
        Ok(Made { client, watches })
    }

    fn known(&self) -> Option<&Made> {
        self.made.this().get()
    }

    /// Whether it is connected, to a store that is no file.
    pub(crate) fn waits_for_no_disk(&self) -> bool {
        let is_file = matches!(&self.source, Source::Url(url) if url.starts_with("file"));
        !is_file && self.known().is_some()
    }

    pub(crate) fn watches(&self) -> Option<&Watches> {
        Some(&self.known()?.watches)
    }
}

impl Close for Client {
    /// Releases all leases and ends all waits. A second call does nothing more.
    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>> {
        Box::pin(async {
            // A change, and not a mere store, because of `here`.
            self.is_closed.swap(true, Ordering::AcqRel);
            match self.known() {
                Some(made) => Ok(made.client.clone().close().await?),
                None => Ok(()),
            }
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        process::drop_detached(std::mem::take(&mut self.made));
    }
}

/// The native object inside `Client` and `AsyncClient`.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct NativeClient(pub(crate) Arc<Client>);

#[pymethods]
impl NativeClient {
    /// `number` identifies the client in its events. Without `tells_all`, only events for the log
    /// are reported.
    #[new]
    fn new(
        store: &Bound<'_, PyAny>,
        defaults: &Options,
        number: u64,
        tells_all: bool,
    ) -> PyResult<Self> {
        let source = match store.cast::<Memory>() {
            Ok(memory) => Source::Memory(Arc::clone(&memory.get().0)),
            Err(_) => Source::Url(url(store)?),
        };
        if let Source::Url(url) = &source {
            check_url(url).map_err(refused)?;
        }
        let client = Client {
            source,
            defaults: defaults.0.clone(),
            tells: (number, tells_all),
            made: PerProcess::new(),
            is_closed: AtomicBool::new(false),
        };
        Ok(Self(Arc::new(client)))
    }

    fn connect(&self) -> Verb {
        let client = Arc::clone(&self.0);
        Verb::new(async move { client.here().await.map(|_| Done::Nothing) })
    }

    fn close(&self) -> Verb {
        let client = Arc::clone(&self.0);
        Verb::new(async move { client.close().await.map(|()| Done::Nothing) }).going_on()
    }

    /// The store as text, without passwords.
    #[getter]
    fn store(&self) -> String {
        match &self.0.source {
            Source::Url(url) => store::shown_url(url),
            Source::Memory(_) => "Memory()".to_owned(),
        }
    }
}

/// The given URL, which Python has taken from the environment if there was none.
fn url(store: &Bound<'_, PyAny>) -> PyResult<String> {
    if store.is_none() {
        let text =
            "no store: give its URL, as Client(\"redis://127.0.0.1/\"), or set LEASEHOLD_STORE";
        return Err(refused(InvalidInput::new("store", text)));
    }
    store.extract().map_err(|_| {
        let found = store.get_type();
        let text = format!("store is a URL as str, a Memory or None, not {found}");
        pyo3::exceptions::PyTypeError::new_err(text)
    })
}
