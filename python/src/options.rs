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

/// The longest ttl and `min_hold`, in seconds. The longest `once_per` has 366 days.
const DAY: f64 = 86_400.0;

/// Reads a duration: seconds, or a `timedelta`, or `None`.
pub(crate) fn maybe_span(
    value: Option<&Bound<'_, PyAny>>,
    what: &'static str,
) -> PyResult<Option<Duration>> {
    span_within(value, what, (0.0, f64::MAX), "give a span of 0 or more, and finite")
}

/// Reads a ttl, or `None`.
pub(crate) fn maybe_ttl(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    span_within(value, "ttl", (0.1, DAY), "give 100 ms to 24 h")
}

/// The same in a range. A refusal shows the number that was given.
fn span_within(
    value: Option<&Bound<'_, PyAny>>,
    what: &'static str,
    (least, most): (f64, f64),
    remedy: &str,
) -> PyResult<Option<Duration>> {
    let Some(value) = value else { return Ok(None) };
    let number = if value.is_instance_of::<PyDelta>() {
        value.call_method0("total_seconds")?
    } else if value.is_instance_of::<PyFloat>() || is_int(value) {
        value.clone()
    } else {
        let found = value.get_type().name()?;
        let text = format!("{what} is seconds as int or float, or a timedelta, not {found}");
        return Err(PyTypeError::new_err(text));
    };
    // An int may be larger than any float.
    let largest = || if number.lt(0).unwrap_or(false) { f64::MIN } else { f64::MAX };
    let seconds = number.extract::<f64>().unwrap_or_else(|_| largest());
    match seconds >= least && seconds <= most {
        true => Ok(Some(Duration::from_secs_f64(seconds.min(LONGEST)))),
        false => {
            let text = format!("{what} is {} seconds: {remedy}", shown(&number));
            Err(refused(InvalidInput::new(what, text)))
        }
    }
}

fn is_int(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>()
}

/// A number as Python writes it. Python does not write an int of some thousand digits.
fn shown(number: &Bound<'_, PyAny>) -> String {
    number.str().map_or_else(|_| "an int of over 4300 digits".to_owned(), |text| text.to_string())
}

/// Reads an int from `least` on. A refusal shows the number that was given.
pub(crate) fn whole(value: &Bound<'_, PyAny>, what: &'static str, least: u32) -> PyResult<u32> {
    if !is_int(value) {
        let text = format!("{what} is an int, not {}", value.get_type().name()?);
        return Err(PyTypeError::new_err(text));
    }
    value.extract().ok().filter(|number| *number >= least).ok_or_else(|| {
        let text = format!("{what} is {}: give {least} to {}", shown(value), u32::MAX);
        refused(InvalidInput::new(what, text))
    })
}

/// Reads the name of a lock.
pub(crate) fn parse_name(name: &Bound<'_, PyAny>) -> PyResult<LockName> {
    let Ok(text) = name.cast::<PyString>() else {
        let text = format!("a name is str, not {}", name.get_type().name()?);
        return Err(PyTypeError::new_err(text));
    };
    LockName::new(&*text.to_cow()?).map_err(refused)
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
    #[pyo3(signature = (*, ttl = None, renew = true, max_hold = None, min_hold = None,
                        once_per = None, label = None))]
    fn new(
        ttl: Option<&Bound<'_, PyAny>>,
        renew: bool,
        max_hold: Option<&Bound<'_, PyAny>>,
        min_hold: Option<&Bound<'_, PyAny>>,
        once_per: Option<&Bound<'_, PyAny>>,
        label: Option<String>,
    ) -> PyResult<Self> {
        let year = (0.0, 366.0 * DAY);
        let options = LeaseOptions {
            ttl: maybe_ttl(ttl)?.unwrap_or(LeaseOptions::default().ttl),
            renewal: if renew { Renewal::Auto } else { Renewal::Off },
            max_hold: maybe_span(max_hold, "max_hold")?,
            min_hold: span_within(min_hold, "min_hold", (0.0, DAY), "give at most 24 h")?,
            once_per: span_within(once_per, "once_per", year, "give at most 366 days")?,
            label,
        };
        options.check().map_err(refused)?;
        Ok(Self(options))
    }
}
