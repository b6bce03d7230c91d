//! The functions that carry tokens to the protected resources, and check them there.

use leasehold::FencingToken;
use leasehold::fence::{Dialect, Fence, HEADER};
use leasehold::lease::Lease;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::errors::{Failure, refused};
use crate::options::parse_name;

#[pyfunction]
pub(crate) fn header() -> &'static str {
    HEADER
}

fn fence(name: &Bound<'_, PyString>, token: &Bound<'_, PyInt>) -> PyResult<Fence> {
    Ok(Fence { lock: parse_name(name)?, token: parse_token(token)? })
}

fn parse_token(token: &Bound<'_, PyInt>) -> PyResult<FencingToken> {
    token.str()?.to_string().parse().map_err(refused)
}

#[pyfunction]
pub(crate) fn to_header(name: &Bound<'_, PyString>, token: &Bound<'_, PyInt>) -> PyResult<String> {
    Ok(leasehold::fence::to_header(&fence(name, token)?))
}

#[pyfunction]
pub(crate) fn from_header(text: &str) -> PyResult<(String, u64)> {
    let fence = leasehold::fence::from_header(text).map_err(refused)?;
    Ok((fence.lock.to_string(), fence.token.get()))
}

/// Refuses a token that `newest` has overtaken; otherwise returns the checked token.
#[pyfunction]
#[pyo3(signature = (name, token, newest))]
pub(crate) fn check_fence(
    name: &Bound<'_, PyString>,
    token: &Bound<'_, PyInt>,
    newest: Option<u64>,
) -> PyResult<u64> {
    let fence = fence(name, token)?;
    match newest.and_then(FencingToken::from_number).filter(|newest| *newest > fence.token) {
        Some(newest) => Err(Failure::from(fence.overtaken_by(newest)).into()),
        None => Ok(fence.token.get()),
    }
}

/// The SQL that creates the table, installs a token and reads the newest token.
#[pyfunction]
pub(crate) fn sql(dialect: &str) -> (&'static str, &'static str, &'static str) {
    let dialect = match dialect {
        "mysql" => Dialect::MySql,
        "postgresql" => Dialect::PostgreSql,
        _ => Dialect::Sqlite,
    };
    (dialect.table(), dialect.install(), dialect.newest())
}

/// Parses a lease in text form into its name, token and ttl in seconds.
#[pyfunction]
pub(crate) fn parse_lease(text: &str) -> PyResult<(String, u64, f64)> {
    let lease: Lease = text.parse().map_err(refused)?;
    Ok((lease.name.to_string(), lease.token.get(), lease.ttl.as_secs_f64()))
}
