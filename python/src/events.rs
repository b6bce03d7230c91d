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

/// Whether an event goes into the log. A repeated event goes into it only the first time.
pub(crate) fn warns(event: &Event<'_>) -> bool {
    match event {
        Event::Delayed { lasting, .. } | Event::Overdue { lasting, .. } => lasting.is_zero(),
        Event::Lost { reason, .. } => *reason != LossReason::Closed,
        Event::Stalled { .. }
        | Event::Undelivered { .. }
        | Event::WaitingForCapacity { .. }
        | Event::Warning { .. } => true,
        _ => false,
    }
}

/// The owned copy of an event for the listeners.
pub(crate) fn told(event: &Event<'_>) -> Told {
    of_call(event).or_else(|| of_lease(event)).unwrap_or_else(|| of_store(event))
}

/// Converts an event of a verb.
fn of_call(event: &Event<'_>) -> Option<Told> {
    Some(match *event {
        Event::Acquiring { request, .. } => Told::of("acquiring", "asked for").on(&request),
        Event::Busy { request, waited, .. } => {
            Told::of("busy", "somebody else has it").on(&request).waited(waited)
        }
        Event::Cancelled { request, waited, .. } => {
            Told::of("cancelled", "the wait was cancelled").on(&request).waited(waited)
        }
        Event::Delayed { request, cause, .. } => {
            Told::of("delayed", format!("the wait is held up: {cause}")).on(&request)
        }
        Event::Failed { request, waited, error, .. } => {
            Told::of("failed", error).on(&request).waited(waited)
        }
        Event::Granted { lease, waited, .. } => {
            let told = Told::of("granted", format!("granted with token {}", lease.token));
            told.of_lease(&lease).waited(waited)
        }
        Event::OwnLease { request, token, .. } => {
            let text = format!(
                "waits for what its own process holds, with token {token}: if it is the same \
                 task, use `Guard::reenter`"
            );
            Told { token: Some(token), ..Told::of("own_lease", text).on(&request) }
        }
        Event::TimedOut { request, waited, .. } => {
            let text = format!("still busy after {}", show_duration(waited));
            Told::of("timed_out", text).on(&request).waited(waited)
        }
        Event::Waiting { request, ahead, .. } => {
            let text = match ahead {
                Some(ahead) => format!("waits, {ahead} come before"),
                None => "waits".to_owned(),
            };
            Told::of("waiting", text).on(&request)
        }
        Event::WaitingForCapacity { request, text, .. } => {
            Told::of("waiting_for_capacity", text).on(&request)
        }
        _ => return None,
    })
}

/// Converts an event of a lease.
fn of_lease(event: &Event<'_>) -> Option<Told> {
    Some(match *event {
        Event::Lost { lease, held, reason, cause, .. } => {
            let why = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
            let token = lease.token;
            let text = format!("the lease with token {token} was lost: {reason}{why}");
            let told = Told::of("lost", text).of_lease(&lease).held(held);
            Told { reason: Some(reason.as_str()), ..told }
        }
        Event::ModeChanged { lease, from, .. } => {
            let text = format!("{} has become {}", from.as_str(), lease.mode.as_str());
            Told::of("mode_changed", text).of_lease(&lease)
        }
        Event::Overdue { lease, validity, cause, .. } => {
            let left = show_duration(validity);
            let text = format!("could not be renewed, {left} are left: {cause}");
            Told::of("overdue", text).of_lease(&lease)
        }
        Event::Released { lease, held, .. } => {
            Told::of("released", "released").of_lease(&lease).held(held)
        }
        Event::Renewed { lease, .. } => Told::of("renewed", "renewed").of_lease(&lease),
        Event::Undelivered { lease, held, .. } => {
            let text = format!("was taken for {} for nobody", show_duration(held));
            Told::of("undelivered", text).of_lease(&lease).held(held)
        }
        _ => return None,
    })
}

/// Converts an event of the store or of the process.
fn of_store(event: &Event<'_>) -> Told {
    match *event {
        Event::Reconnected { away, .. } => {
            let text = format!("the store answers again after {}", show_duration(away));
            Told::of("reconnected", text)
        }
        Event::RoundTrip { operation, name, took, error, .. } => {
            let took = show_duration(took);
            let text = match error {
                Some(error) => format!("{operation} took {took}: {error}"),
                None => format!("{operation} took {took}"),
            };
            let told = Told::of("round_trip", text);
            Told { name: name.map(ToString::to_string), ..told }
        }
        Event::Stalled { late, .. } => {
            let late = show_duration(late);
            let text = format!("leases were renewed {late} late: a pause or an overload");
            Told::of("stalled", text)
        }
        Event::Warning { text, .. } => Told::of("warning", text),
        // A later version may add events.
        _ => Told::of("other", format!("{event:?}")),
    }
}
