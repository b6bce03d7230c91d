//! Converts the events of the library into Python values.

use std::fmt::Display;
use std::time::Duration;

use leasehold::event::{Event, LeaseFacts, RequestFacts};
use leasehold::lease::Mode;
use leasehold::time::show_duration;
use leasehold::{FencingToken, LockName, LossReason};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::message;

/// An event, owned.
#[derive(Default)]
pub(crate) struct Told {
    kind: &'static str,
    name: Option<String>,
    mode: Option<&'static str>,
    label: Option<String>,
    token: Option<FencingToken>,
    waited: Option<Duration>,
    held: Option<Duration>,
    reason: Option<&'static str>,
    text: String,
    /// Whether the event goes into the log.
    pub(crate) warns: bool,
}

impl Told {
    /// The fields of `leasehold.Event`, in the order of that class.
    pub(crate) fn into_fields(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        let fields = (
            self.kind,
            self.name,
            self.mode,
            self.label,
            self.token.map(FencingToken::get),
            self.waited.map(|span| span.as_secs_f64()),
            self.held.map(|span| span.as_secs_f64()),
            self.reason,
            message(&self.text),
        );
        fields.into_pyobject(py)
    }

    fn of(kind: &'static str, text: impl Display) -> Self {
        Self { kind, text: text.to_string(), ..Self::default() }
    }

    /// Adds the facts of a request for a lock.
    fn on(self, request: &RequestFacts<'_>) -> Self {
        self.about(request.name, request.mode, request.label)
    }

    /// Adds the facts of a lease.
    fn of_lease(self, lease: &LeaseFacts<'_>) -> Self {
        let told = self.about(lease.name, lease.mode, lease.label);
        Self { token: Some(lease.token), ..told }
    }

    fn about(self, name: &LockName, mode: Mode, label: Option<&str>) -> Self {
        let text = format!("{name}: {}", self.text);
        let (name, label) = (Some(name.to_string()), label.map(str::to_owned));
        Self { name, mode: Some(mode.as_str()), label, text, ..self }
    }

    fn waited(self, waited: Duration) -> Self {
        Self { waited: Some(waited), ..self }
    }

    fn held(self, held: Duration) -> Self {
        Self { held: Some(held), ..self }
    }
}

/// Whether an event goes into the log.
pub(crate) fn warns(event: &Event<'_>) -> bool {
    match event {
        Event::Waiting { cause, .. } => cause.is_some(),
        Event::Lost { reason, .. } => *reason != LossReason::Closed,
        Event::Overdue { .. } | Event::Warning { .. } => true,
        _ => false,
    }
}

/// The owned copy of an event for the listeners.
pub(crate) fn told(event: &Event<'_>) -> Told {
    match *event {
        Event::Waiting { request, ahead, own, cause, .. } => {
            let text = match (cause, own, ahead) {
                (Some(cause), _, _) => format!("the wait is held up: {cause}"),
                (None, Some(token), _) => format!(
                    "waits for what its own client holds, with token {token}: if it is the same \
                     task, use `Guard::reenter`"
                ),
                (None, None, Some(ahead)) => format!("waits, {ahead} come before"),
                (None, None, None) => "waits".to_owned(),
            };
            Told { token: own, ..Told::of("waiting", text).on(&request) }
        }
        Event::Granted { lease, waited, .. } => {
            let told = Told::of("granted", format!("granted with token {}", lease.token));
            told.of_lease(&lease).waited(waited)
        }
        Event::Renewed { lease, .. } => Told::of("renewed", "renewed").of_lease(&lease),
        Event::Overdue { lease, validity, cause, .. } => {
            let left = show_duration(validity);
            let text = format!("could not be renewed, {left} are left: {cause}");
            Told::of("overdue", text).of_lease(&lease)
        }
        Event::Lost { lease, held, reason, cause, .. } => {
            let why = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
            let token = lease.token;
            let text = format!("the lease with token {token} was lost: {reason}{why}");
            let told = Told::of("lost", text).of_lease(&lease).held(held);
            Told { reason: Some(reason.as_str()), ..told }
        }
        Event::Released { lease, held, .. } => {
            Told::of("released", "released").of_lease(&lease).held(held)
        }
        Event::Failed { request, waited, outcome, error, .. } => {
            let text = match error {
                Some(error) => error.to_string(),
                None => format!("{outcome} after {}", show_duration(waited)),
            };
            Told::of("failed", text).on(&request).waited(waited)
        }
        Event::RoundTrip { operation, name, took, error, away, .. } => {
            let took = show_duration(took);
            let end = match (error, away.map(show_duration)) {
                (_, Some(away)) => format!(", and the store answers again after {away}"),
                (Some(error), None) => format!(": {error}"),
                (None, None) => String::new(),
            };
            let told = Told::of("round_trip", format!("{operation} took {took}{end}"));
            Told { name: name.map(ToString::to_string), ..told }
        }
        Event::Warning { text, .. } => Told::of("warning", text),
        // A later version may add events.
        _ => Told::of("other", format!("{event:?}")),
    }
}
