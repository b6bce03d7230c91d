//! Leader election.

use std::sync::Arc;

use leasehold::election::{Observation, Observed};
use leasehold::{LeaseOptions, LockName};
use pyo3::prelude::*;

use crate::client::{Client, NativeClient};
use crate::done::{Done, Give};
use crate::errors::Failure;
use crate::options::{Options, parse_name};
use crate::process;
use crate::slot::Lease;
use crate::verb::Verb;

struct Request {
    client: Arc<Client>,
    name: LockName,
    options: LeaseOptions,
}

impl Request {
    async fn election(&self) -> Result<leasehold::election::Election, Failure> {
        let made = self.client.here().await?;
        Ok(made.client.election(&self.name).options(self.options.clone()))
    }
}

/// The native object inside `Election` and `AsyncElection`.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct NativeElection(Arc<Request>);

#[pymethods]
impl NativeElection {
    #[new]
    fn new(client: &NativeClient, name: &Bound<'_, PyAny>, options: &Options) -> PyResult<Self> {
        let (client, name) = (Arc::clone(&client.0), parse_name(name)?);
        Ok(Self(Arc::new(Request { client, name, options: options.0.clone() })))
    }

    fn campaign(&self, value: String) -> Verb {
        let request = Arc::clone(&self.0);
        Verb::new(async move {
            let leadership = request.election().await?.campaign(value).await?;
            Ok(Done::guard(&request.client, Lease::Leader(leadership)))
        })
    }

    fn leader(&self) -> Verb {
        let request = Arc::clone(&self.0);
        Verb::new(async move { Ok(Done::Leader(request.election().await?.leader().await?)) })
    }

    fn observe(&self) -> Verb {
        let request = Arc::clone(&self.0);
        Verb::new(async move {
            let observation = request.election().await?.observe().await?;
            Ok(Done::Object(Box::new(NativeObservation::new(observation))))
        })
    }
}

/// The changes of leader in an election.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct NativeObservation {
    /// `None` once this is dropped.
    inner: Option<Arc<tokio::sync::Mutex<Observation>>>,
}

impl NativeObservation {
    fn new(observation: Observation) -> Self {
        Self { inner: Some(Arc::new(tokio::sync::Mutex::new(observation))) }
    }
}

impl Give for NativeObservation {
    fn give(self: Box<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(Bound::new(py, *self)?.into_any())
    }
}

impl Drop for NativeObservation {
    fn drop(&mut self) {
        process::drop_detached(self.inner.take());
    }
}

#[pymethods]
impl NativeObservation {
    /// Waits for the next change and returns the new leader, if any. It keeps waiting during an
    /// outage of the store.
    fn next(&self) -> Verb {
        let inner = self.inner.clone();
        Verb::new(async move {
            let Some(inner) = inner else { return Err(leasehold::Error::Closed.into()) };
            let mut observation = inner.lock().await;
            loop {
                match observation.next().await? {
                    Observed::Away(_) => {}
                    Observed::Leader(leader) => return Ok(Done::Leader(Some(leader))),
                    Observed::Nobody => return Ok(Done::Leader(None)),
                }
            }
        })
    }
}
