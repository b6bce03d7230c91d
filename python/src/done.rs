//! The results of verbs.

use std::time::Duration;

use leasehold::admin::Status;
use leasehold::election::Leader;
use leasehold::{LockName, LossReason};
use pyo3::prelude::*;

use crate::values;

/// A result that becomes a Python object of a separate type.
pub(crate) trait Give: Send {
    fn give(self: Box<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

/// The result of a verb. Dropping a result with a lease releases the lease.
pub(crate) enum Done {
    Flag(bool),
    Leader(Option<Leader>),
    Names(Vec<LockName>),
    Nothing,
    Object(Box<dyn Give>),
    Reason(Option<LossReason>),
    Seconds(Duration),
    Status(Box<Status>),
}

impl Done {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Flag(flag) => Ok(flag.into_pyobject(py)?.to_owned().into_any()),
            Self::Leader(Some(leader)) => values::leader(py, &leader),
            Self::Leader(None) | Self::Nothing => Ok(py.None().into_bound(py)),
            Self::Names(names) => {
                let names: Vec<&str> = names.iter().map(LockName::as_str).collect();
                Ok(names.into_pyobject(py)?.into_any())
            }
            Self::Object(object) => object.give(py),
            Self::Reason(reason) => {
                Ok(reason.map(LossReason::as_str).into_pyobject(py)?.into_any())
            }
            Self::Seconds(span) => Ok(span.as_secs_f64().into_pyobject(py)?.into_any()),
            Self::Status(status) => values::status(py, &status),
        }
    }
}
