//! Requests for locks: the kind of lock, its names and its options.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::error::InvalidInput;
use leasehold::lease::Mode;
use leasehold::process::PerProcess;
use leasehold::{LeaseOptions, LockName};
use pyo3::prelude::*;

use crate::client::{Client, NativeClient};
use crate::done::Done;
use crate::errors::{Failure, refused};
use crate::options::{Options, maybe_span, parse_name, whole};
use crate::verb::Verb;

/// How a client makes a lock of the requested kind.
type Make = Box<dyn Fn(&leasehold::Client) -> leasehold::Lock + Send + Sync>;

struct Request {
    client: Arc<Client>,
    name: LockName,
    make: Make,
    options: LeaseOptions,
    /// A forked child makes the lock anew.
    made: PerProcess<OnceLock<leasehold::Lock>>,
}

impl Request {
    /// The lock of this process; the first verb of a client connects.
    async fn lock(&self) -> Result<&leasehold::Lock, Failure> {
        let client = &self.client.here().await?.client;
        let make = || (self.make)(client).options(self.options.clone());
        Ok(self.made.this().get_or_init(make))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        crate::process::drop_detached(std::mem::take(&mut self.made));
    }
}

/// The native object inside `Lock` and `AsyncLock`.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct NativeLock(Arc<Request>);

impl NativeLock {
    fn of(client: &NativeClient, name: LockName, options: &Options, make: Make) -> Self {
        let (client, options) = (Arc::clone(&client.0), options.0.clone());
        Self(Arc::new(Request { client, name, make, options, made: PerProcess::new() }))
    }
}

#[pymethods]
impl NativeLock {
    /// `kind` is the name of the verb: `mutex`, `read` or `write`.
    #[new]
    fn new(
        client: &NativeClient,
        name: &Bound<'_, PyAny>,
        kind: &str,
        options: &Options,
    ) -> PyResult<Self> {
        let name = parse_name(name)?;
        let of = name.clone();
        let make: Make = match kind {
            "read" => Box::new(move |client| client.rwlock(&of).read()),
            "write" => Box::new(move |client| client.rwlock(&of).write()),
            _ => Box::new(move |client| client.mutex(&of)),
        };
        Ok(Self::of(client, name, options, make))
    }

    #[staticmethod]
    fn permits(
        client: &NativeClient,
        name: &Bound<'_, PyAny>,
        count: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
        options: &Options,
    ) -> PyResult<Self> {
        let (count, capacity) = (whole(count, "permits", 1)?, whole(capacity, "capacity", 1)?);
        Mode::Permits { count, capacity }.check().map_err(refused)?;
        let name = parse_name(name)?;
        let of = name.clone();
        let make: Make = Box::new(move |client| client.semaphore(&of, capacity).permits(count));
        Ok(Self::of(client, name, options, make))
    }

    #[staticmethod]
    fn multi(
        client: &NativeClient,
        names: Vec<Bound<'_, PyAny>>,
        options: &Options,
    ) -> PyResult<Self> {
        let names = names.iter().map(parse_name).collect::<PyResult<Vec<_>>>()?;
        let none = || refused(InvalidInput::new("names", "no names: give at least one"));
        let first = names.first().cloned().ok_or_else(none)?;
        Ok(Self::of(client, first, options, Box::new(move |client| client.multi(&names))))
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name.as_str()
    }

    #[pyo3(signature = (timeout))]
    fn acquire(&self, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Verb> {
        let limit: Option<Duration> = maybe_span(timeout, "timeout")?;
        let request = Arc::clone(&self.0);
        let verb = Verb::new(async move {
            let lock = request.lock().await?;
            let guard = match limit {
                Some(limit) => lock.acquire_within(limit).await?,
                None => lock.acquire().await?,
            };
            Ok(Done::guard(&request.client, guard.into()))
        });
        Ok(verb.at_once(self.0.client.waits_for_no_disk()))
    }

    fn try_acquire(&self) -> Verb {
        let request = Arc::clone(&self.0);
        Verb::new(async move {
            Ok(match request.lock().await?.try_acquire().await? {
                Some(guard) => Done::guard(&request.client, guard.into()),
                None => Done::Nothing,
            })
        })
        .at_once(self.0.client.waits_for_no_disk())
    }

    fn status(&self) -> Verb {
        let request = Arc::clone(&self.0);
        Verb::new(async move { Ok(Done::Status(Box::new(request.lock().await?.status().await?))) })
    }
}
