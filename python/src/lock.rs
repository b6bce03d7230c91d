//! Requests for locks: the kind of lock, its names and its options.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::error::InvalidInput;
use leasehold::lease::Mode;
use leasehold::process::MadeIn;
use leasehold::{LeaseOptions, LockName};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::client::{Client, NativeClient};
use crate::done::Done;
use crate::errors::{Failure, refused};
use crate::options::{Options, maybe_span, parse_name, whole};
use crate::verb::Verb;

/// The kind of lock that is requested.
#[derive(Clone)]
enum Kind {
    Mutex,
    Multi(Vec<LockName>),
    Permits { count: u32, capacity: u32 },
    Read,
    Write,
}

struct Request {
    client: Arc<Client>,
    name: LockName,
    kind: Kind,
    options: LeaseOptions,
    /// The lock, for the process in which it was first used.
    made: OnceLock<(MadeIn, leasehold::Lock)>,
}

impl Request {
    /// The lock of this process; the first verb of a client connects.
    async fn lock(&self) -> Result<leasehold::Lock, Failure> {
        let client = &self.client.here().await?.client;
        if let Some((made_in, lock)) = self.made.get()
            && !made_in.is_another()
        {
            return Ok(lock.clone());
        }
        let name = &self.name;
        let lock = match &self.kind {
            Kind::Mutex => client.mutex(name),
            Kind::Multi(names) => client.multi(names),
            Kind::Permits { count, capacity } => client.semaphore(name, *capacity).permits(*count),
            Kind::Read => client.rwlock(name).read(),
            Kind::Write => client.rwlock(name).write(),
        };
        let lock = lock.options(self.options.clone());
        // In a forked child of a process that has used the lock, `set` fails; the child makes the
        // lock anew on each call.
        let _ = self.made.set((MadeIn::this(), lock.clone()));
        Ok(lock)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(made) = self.made.take() {
            crate::process::drop_detached(made);
        }
    }
}

/// The native object inside `Lock` and `AsyncLock`.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct NativeLock(Arc<Request>);

impl NativeLock {
    fn of(client: &NativeClient, name: LockName, kind: Kind, options: &Options) -> Self {
        let (client, options) = (Arc::clone(&client.0), options.0.clone());
        Self(Arc::new(Request { client, name, kind, options, made: OnceLock::new() }))
    }
}

#[pymethods]
impl NativeLock {
    /// `kind` is the name of the verb: `mutex`, `read` or `write`.
    #[new]
    fn new(
        client: &NativeClient,
        name: &Bound<'_, PyString>,
        kind: &str,
        options: &Options,
    ) -> PyResult<Self> {
        let kind = match kind {
            "read" => Kind::Read,
            "write" => Kind::Write,
            _ => Kind::Mutex,
        };
        Ok(Self::of(client, parse_name(name)?, kind, options))
    }

    #[staticmethod]
    fn permits(
        client: &NativeClient,
        name: &Bound<'_, PyString>,
        count: &Bound<'_, PyAny>,
        capacity: &Bound<'_, PyAny>,
        options: &Options,
    ) -> PyResult<Self> {
        let (count, capacity) = (whole(count, "permits", 1)?, whole(capacity, "capacity", 1)?);
        Mode::Permits { count, capacity }.check().map_err(refused)?;
        Ok(Self::of(client, parse_name(name)?, Kind::Permits { count, capacity }, options))
    }

    #[staticmethod]
    fn multi(
        client: &NativeClient,
        names: Vec<Bound<'_, PyString>>,
        options: &Options,
    ) -> PyResult<Self> {
        let names = names.iter().map(parse_name).collect::<PyResult<Vec<_>>>()?;
        let none = || refused(InvalidInput::new("names", "no names: give at least one"));
        let first = names.first().cloned().ok_or_else(none)?;
        Ok(Self::of(client, first, Kind::Multi(names), options))
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name.as_str()
    }

    #[pyo3(signature = (timeout))]
    fn acquire(&self, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Verb> {
        let limit: Option<Duration> = maybe_span(timeout, "timeout")?;
        let request = Arc::clone(&self.0);
        Ok(Verb::new(async move {
            let lock = request.lock().await?;
            let guard = match limit {
                Some(limit) => lock.acquire_within(limit).await?,
                None => lock.acquire().await?,
            };
            Ok(Done::guard(&request.client, guard.into()))
        }))
    }

    fn try_acquire(&self) -> Verb {
        let request = Arc::clone(&self.0);
        Verb::new(async move {
            Ok(match request.lock().await?.try_acquire().await? {
                Some(guard) => Done::guard(&request.client, guard.into()),
                None => Done::Nothing,
            })
        })
    }

    fn status(&self) -> Verb {
        let request = Arc::clone(&self.0);
        Verb::new(async move { Ok(Done::Status(Box::new(request.lock().await?.status().await?))) })
    }
}
