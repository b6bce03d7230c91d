//! Converts the errors of the library into the exceptions of `leasehold.errors`.

use leasehold::error::{InvalidInput, StoreError, StoreErrorKind};
use leasehold::{Error, FencingToken, LockName, LossReason};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::values;

/// The Python words that replace the Rust words in the library's messages.
const WORDS: [(&str, &str); 6] = [
    ("use Guard::reenter", "use `guard.reenter()`"),
    ("`LockName::hashed`, in a shell `sha256sum`", "`hashlib.sha256`, in a shell `sha256sum`"),
    ("`Admin::inspect`", "`client.admin.inspect`"),
    ("`Guard::reenter`", "`guard.reenter()`"),
    ("make the client and this anew in this process", "make it anew in this process"),
    ("in memory of this process", "in the memory of this process"),
];

/// The reason why a verb failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library.
    Error(Error),
    /// The interpreter is shutting down.
    Exit,
    /// The guard was released before.
    LetGo(LockName, FencingToken),
    /// The guard belongs to the parent process, from which this process was forked.
    OfParent(LockName),
    /// The caller asked for something impossible.
    Misuse(&'static str),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl From<Failure> for PyErr {
    /// Only Python threads raise, so they can take the GIL.
    fn from(failure: Failure) -> Self {
        Python::attach(|py| match raised(py, failure) {
            Ok(error) | Err(error) => error,
        })
    }
}

/// The exception for an invalid argument, before any verb begins.
pub(crate) fn refused(why: InvalidInput) -> PyErr {
    Failure::from(why).into()
}

/// The failure when the process has run out of a limited resource.
pub(crate) fn full(what: &str, error: &std::io::Error) -> Failure {
    StoreError::new(StoreErrorKind::Full, format!("{what}: {error}")).into()
}

pub(crate) fn message(text: &str) -> String {
    WORDS.iter().fold(text.to_owned(), |text, (rust, python)| text.replace(rust, python))
}

fn raised(py: Python<'_>, failure: Failure) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    let (class, text) = match &failure {
        Failure::Error(error) => {
            let class = described(py, error, &fields)?;
            fields.set_item("is_transient", error.is_transient())?;
            fields.set_item("name", error.name().map(LockName::as_str))?;
            (class, message(&error.to_string()))
        }
        Failure::Exit => ("ClientClosed", "the client was closed: the program ends".to_owned()),
        Failure::LetGo(name, token) => {
            fields.set_item("name", name.as_str())?;
            fields.set_item("token", token.get())?;
            fields.set_item("reason", "released")?;
            let text =
                format!("{name}: the lease with token {token} was released: acquire it anew");
            ("LeaseLost", text)
        }
        Failure::OfParent(name) => {
            fields.set_item("name", name.as_str())?;
            let text = format!("{name}: the guard is the parent's: acquire anew in this process");
            ("NotOwner", text)
        }
        Failure::Misuse(text) => return Ok(PyRuntimeError::new_err(*text)),
    };
    let error = py.import("leasehold.errors")?.getattr(class)?.call1((text,))?;
    for (name, value) in fields {
        error.setattr(name.cast_into::<pyo3::types::PyString>()?, value)?;
    }
    Ok(PyErr::from_value(error))
}

/// The name of an error's exception class. Adds the fields of that class to `fields`.
fn described(py: Python<'_>, error: &Error, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    let lost = |token: FencingToken, reason: LossReason| {
        fields.set_item("token", token.get())?;
        fields.set_item("reason", reason.as_str())
    };
    Ok(match error {
        Error::AlreadyDone { last, next_in, .. } => {
            fields.set_item("token", last.token.get())?;
            fields.set_item("host", &last.info.host)?;
            fields.set_item("pid", last.info.pid)?;
            fields.set_item("label", last.info.label.as_deref())?;
            fields.set_item("ended_ago", last.ended_ago.as_secs_f64())?;
            fields.set_item("next_in", next_in.as_secs_f64())?;
            "AlreadyDone"
        }
        Error::Closed => "ClientClosed",
        Error::Fenced { token, newest, .. } => {
            fields.set_item("token", token.get())?;
            fields.set_item("newest", newest.get())?;
            "Fenced"
        }
        Error::Forked => "NotOwner",
        Error::Indeterminate { settles_within, source, .. } => {
            fields.set_item("settles_within", settles_within.as_secs_f64())?;
            fields.set_item("kind", source.kind().as_str())?;
            "Indeterminate"
        }
        Error::Invalid(_) => "InvalidInput",
        Error::Lost { reason: LossReason::Forked, .. } => "NotOwner",
        Error::Lost { token, reason, .. } => {
            lost(*token, *reason)?;
            "LeaseLost"
        }
        Error::NotAdopted { token, reason, .. } => {
            lost(*token, *reason)?;
            "NotAdopted"
        }
        Error::Store(error) => of_store(error, fields)?,
        Error::Timeout { waited, holder, others, own, .. } => {
            fields.set_item("waited", waited.as_secs_f64())?;
            let holder = holder.as_deref().map(|holder| values::holder(py, holder)).transpose()?;
            fields.set_item("holder", holder)?;
            fields.set_item("others", others)?;
            fields.set_item("own", own)?;
            "LockTimeout"
        }
        // A later version may add errors; such an error is still an exception of this package.
        _ => "LeaseholdError",
    })
}

fn of_store(error: &StoreError, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    fields.set_item("kind", error.kind().as_str())?;
    Ok(match error.kind() {
        StoreErrorKind::Denied => "StoreDenied",
        kind if kind.is_outage() => "StoreUnavailable",
        _ => "StoreError",
    })
}
