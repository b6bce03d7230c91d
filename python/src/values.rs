//! Converts values of the library into the classes of `leasehold.values`.

use leasehold::FencingToken;
use leasehold::admin::{Holder, Status};
use leasehold::election::Leader;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("leasehold.values")?.getattr(name)
}

pub(crate) fn holder<'py>(py: Python<'py>, holder: &Holder) -> PyResult<Bound<'py, PyAny>> {
    class(py, "Holder")?.call1((
        holder.id.to_string(),
        holder.mode.as_str(),
        holder.token.map(FencingToken::get),
        &holder.info.host,
        holder.info.pid,
        holder.info.label.as_deref(),
        holder.held_for.as_secs_f64(),
        holder.ttl_left.as_secs_f64(),
    ))
}

pub(crate) fn status<'py>(py: Python<'py>, status: &Status) -> PyResult<Bound<'py, PyAny>> {
    let holders: Vec<_> =
        status.holders.iter().map(|it| holder(py, it)).collect::<PyResult<_>>()?;
    let holders = PyTuple::new(py, holders)?;
    let held_back = PyTuple::new(py, &status.held_back)?;
    let is_free = status.is_free();
    class(py, "Status")?.call1((holders, status.waiting, is_free, held_back))
}

pub(crate) fn leader<'py>(py: Python<'py>, leader: &Leader) -> PyResult<Bound<'py, PyAny>> {
    class(py, "Leader")?.call1((&leader.value, leader.token.get()))
}
