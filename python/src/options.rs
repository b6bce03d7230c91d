//! Options of leases, and durations.

use std::time::Duration;

use leasehold::error::InvalidInput;
use leasehold::lease::Renewal;
use leasehold::{LeaseOptions, LockName};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyFloat, PyInt, PyString};

use crate::errors::refused;

/// The longest duration, 100 years: a longer one counts as this.
const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;

/// Reads a duration: seconds, or a `timedelta`.
pub(crate) fn span(value: &Bound<'_, PyAny>, what: &'static str) -> PyResult<Duration> {
    let is_number = value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    let seconds: f64 = if is_number {
        value.extract()?
    } else if value.is_instance_of::<PyDelta>() {
        value.call_method0("total_seconds")?.extract()?
    } else {
        let found = value.get_type().name()?;
        let text = format!("{what} is seconds as int or float, or a timedelta, not {found}");
        return Err(PyTypeError::new_err(text));
    };
    if !seconds.is_finite() || seconds < 0.0 {
        let text = format!("{what} is {seconds} seconds: give a span of 0 or more, and finite");
        return Err(refused(InvalidInput::new(what, text)));
    }
    Ok(Duration::from_secs_f64(seconds.min(LONGEST)))
}

/// Like [`span`], but `None` is allowed.
pub(crate) fn maybe_span(
    value: Option<&Bound<'_, PyAny>>,
    what: &'static str,
) -> PyResult<Option<Duration>> {
    value.map(|value| span(value, what)).transpose()
}

/// Reads the name of a lock.
pub(crate) fn parse_name(name: &Bound<'_, PyString>) -> PyResult<LockName> {
    let text = name.to_cow()?;
    LockName::new(&*text).map_err(refused)
}

/// The version of the workspace.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Options of leases that have been checked.
#[pyclass(frozen, module = "leasehold._core")]
#[derive(Clone, Debug)]
pub(crate) struct Options(pub(crate) LeaseOptions);

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (ttl, renew, max_hold, min_hold, label))]
    fn new(
        ttl: Option<&Bound<'_, PyAny>>,
        renew: bool,
        max_hold: Option<&Bound<'_, PyAny>>,
        min_hold: Option<&Bound<'_, PyAny>>,
        label: Option<String>,
    ) -> PyResult<Self> {
        let mut options = LeaseOptions::default();
        if let Some(ttl) = maybe_span(ttl, "ttl")? {
            options.ttl = ttl;
        }
        options.renewal = if renew { Renewal::Auto } else { Renewal::Off };
        options.max_hold = maybe_span(max_hold, "max_hold")?;
        options.min_hold = maybe_span(min_hold, "min_hold")?;
        options.label = label;
        options.check().map_err(refused)?;
        Ok(Self(options))
    }
}
