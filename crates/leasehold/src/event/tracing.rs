//! Events as lines and spans of `tracing`.

use std::collections::HashMap;
use std::fmt;

use leasehold_core::{Error, HolderId, LossReason};
use tracing::{Span, debug, field, info, info_span, warn};

use super::{Event, LeaseFacts, Observer, RequestFacts};
use crate::mutex::Mutex;

/// Hands every event to `tracing`: losses and warnings as `WARN`, delays as `INFO`, requests to the
/// store as `TRACE`, and all others as `DEBUG`.
///
/// Calls and leases are spans of level `INFO`: `leasehold.acquire` from the call to its end, and
/// `leasehold.hold` from the grant to the end of the lease. Both are children of the span in which
/// the call was made, so that a trace shows waiting and holding as bars. Each `leasehold.hold` is
/// linked to its `leasehold.acquire` (`follows_from`). A span stays open while a child of it is
/// open. To keep a guard for longer than the span around the call, acquire it in a span that lives
/// as long as the guard.
///
/// Fields are `leasehold.name`, `leasehold.mode`, `leasehold.label`, `leasehold.token`,
/// `leasehold.holder` and `leasehold.outcome`. After an error there are also `error.type` and
/// `otel.status_code`, from which OpenTelemetry takes the status of the span.
#[derive(Debug, Default)]
pub struct TracingObserver {
    calls: Mutex<HashMap<u64, Span>>,
    holds: Mutex<HashMap<HolderId, Span>>,
}

impl TracingObserver {
    /// An observer without open spans.
    pub fn new() -> Self {
        Self::default()
    }

    fn end_call(&self, call: u64, outcome: &str, error: Option<&dyn fmt::Display>) -> Span {
        let span = self.calls.lock().remove(&call).unwrap_or_else(Span::none);
        record_end(&span, outcome, error);
        span
    }

    fn end_hold(&self, holder: HolderId, outcome: &str, loss: Option<LossReason>) -> Span {
        let span = self.holds.lock().remove(&holder).unwrap_or_else(Span::none);
        let loss = loss.map(LossReason::as_str);
        record_end(&span, outcome, loss.as_ref().map(|loss| loss as &dyn fmt::Display));
        span
    }

    fn hold(&self, holder: HolderId) -> Span {
        self.holds.lock().get(&holder).cloned().unwrap_or_else(Span::none)
    }

    /// Opens and closes the spans that an event begins or ends. Returns the span in which the event
    /// is logged; without one, it is logged in the current span.
    fn span_of(&self, event: &Event<'_>) -> Span {
        match *event {
            Event::Acquiring { call, request: RequestFacts { name, mode, label }, .. } => {
                let span = info_span!(
                    "leasehold.acquire",
                    leasehold.name = %name,
                    leasehold.mode = mode.as_str(),
                    leasehold.label = label,
                    leasehold.outcome = field::Empty,
                    error.type = field::Empty,
                    otel.status_code = field::Empty,
                );
                if !span.is_disabled() {
                    self.calls.lock().insert(call, span.clone());
                }
                span
            }
            Event::Granted { call, lease, .. } => {
                let LeaseFacts { holder, name, mode, label, token } = lease;
                let acquire = self.end_call(call, "granted", None);
                let span = info_span!(
                    "leasehold.hold",
                    leasehold.name = %name,
                    leasehold.mode = mode.as_str(),
                    leasehold.label = label,
                    leasehold.token = %token,
                    leasehold.holder = %holder,
                    leasehold.outcome = field::Empty,
                    error.type = field::Empty,
                    otel.status_code = field::Empty,
                );
                span.follows_from(&acquire);
                if !span.is_disabled() {
                    self.holds.lock().insert(holder, span.clone());
                }
                span
            }
            Event::Busy { call, .. } => self.end_call(call, "busy", None),
            Event::Cancelled { call, .. } => self.end_call(call, "cancelled", None),
            Event::TimedOut { call, .. } => self.end_call(call, "timeout", Some(&"timeout")),
            Event::Failed { call, error, .. } => {
                self.end_call(call, "error", Some(&error_type(error)))
            }
            Event::Released { lease, .. } => self.end_hold(lease.holder, "released", None),
            Event::Lost { lease, reason, .. } => self.end_hold(lease.holder, "lost", Some(reason)),
            Event::ModeChanged { lease, .. } => {
                let span = self.hold(lease.holder);
                span.record("leasehold.mode", lease.mode.as_str());
                span.record("leasehold.token", field::display(lease.token));
                span
            }
            Event::Overdue { lease, .. } | Event::Renewed { lease, .. } => self.hold(lease.holder),
            Event::Delayed { .. }
            | Event::OwnLease { .. }
            | Event::Reconnected { .. }
            | Event::RoundTrip { .. }
            | Event::Stalled { .. }
            | Event::Undelivered { .. }
            | Event::Waiting { .. }
            | Event::WaitingForCapacity { .. }
            | Event::Warning { .. } => Span::none(),
        }
    }
}

impl Observer for TracingObserver {
    fn observe(&self, event: &Event<'_>) {
        self.span_of(event).in_scope(|| tell(event));
    }
}

fn record_end(span: &Span, outcome: &str, error: Option<&dyn fmt::Display>) {
    span.record("leasehold.outcome", outcome);
    if let Some(error) = error {
        span.record("error.type", field::display(error));
        span.record("otel.status_code", "ERROR");
    }
}

/// The kind of error with which a call ended, as one of a few words.
fn error_type(error: &Error) -> &'static str {
    match error {
        Error::Closed => "closed",
        Error::Indeterminate { .. } => "indeterminate",
        Error::NotAdopted { reason, .. } => reason.as_str(),
        Error::Store(error) => error.kind().as_str(),
        // The word that OpenTelemetry uses for all other errors.
        _ => "_OTHER",
    }
}

fn tell(event: &Event<'_>) {
    match *event {
        Event::Acquiring { request: RequestFacts { name, mode, .. }, .. } => {
            debug!(%name, mode = mode.as_str(), "acquiring");
        }
        Event::Busy { request, waited, .. } => debug!(name = %request.name, ?waited, "busy"),
        Event::Cancelled { request, waited, .. } => {
            debug!(name = %request.name, ?waited, "cancelled");
        }
        Event::Delayed { request, cause, lasting, .. } if lasting.is_zero() => {
            info!(name = %request.name, %cause, "delayed");
        }
        Event::Delayed { request, cause, lasting, .. } => {
            debug!(name = %request.name, %cause, ?lasting, "still delayed");
        }
        Event::Failed { request, waited, error, .. } => {
            debug!(name = %request.name, ?waited, %error, "failed");
        }
        Event::OwnLease { request, token, .. } => {
            info!(name = %request.name, %token, "waits for its own client");
        }
        Event::Reconnected { away, .. } => info!(?away, "the store answers again"),
        Event::RoundTrip { operation, took, error: None, .. } => {
            tracing::trace!(operation, ?took, "answered");
        }
        Event::RoundTrip { operation, took, error: Some(error), .. } => {
            tracing::trace!(operation, ?took, %error, "not answered");
        }
        Event::Stalled { late, .. } => info!(?late, "the keeper was woken late"),
        Event::TimedOut { request, waited, .. } => {
            debug!(name = %request.name, ?waited, "timed out");
        }
        Event::Waiting { request, ahead, .. } => debug!(name = %request.name, ?ahead, "waiting"),
        Event::WaitingForCapacity { text, .. } | Event::Warning { text, .. } => warn!("{text}"),
        Event::Granted { lease, .. }
        | Event::Lost { lease, .. }
        | Event::ModeChanged { lease, .. }
        | Event::Overdue { lease, .. }
        | Event::Released { lease, .. }
        | Event::Renewed { lease, .. }
        | Event::Undelivered { lease, .. } => tell_of_lease(event, lease),
    }
}

fn tell_of_lease(event: &Event<'_>, LeaseFacts { name, token, mode, .. }: LeaseFacts<'_>) {
    match *event {
        Event::Granted { waited, .. } => debug!(%name, %token, ?waited, "granted"),
        Event::Lost { reason, cause: Some(cause), .. } => {
            warn!(%name, %token, %reason, %cause, "lost");
        }
        Event::Lost { reason, cause: None, .. } => warn!(%name, %token, %reason, "lost"),
        Event::ModeChanged { from, .. } => {
            debug!(%name, %token, from = from.as_str(), mode = mode.as_str(), "mode changed");
        }
        Event::Overdue { validity, cause, lasting, .. } if lasting.is_zero() => {
            info!(%name, %token, ?validity, %cause, "renewal overdue");
        }
        Event::Overdue { validity, cause, lasting, .. } => {
            debug!(%name, %token, ?validity, %cause, ?lasting, "renewal still overdue");
        }
        Event::Released { held, .. } => debug!(%name, %token, ?held, "released"),
        Event::Renewed { validity, .. } => debug!(%name, %token, ?validity, "renewed"),
        Event::Undelivered { held, .. } => {
            debug!(%name, %token, ?held, "granted, and reached no caller");
        }
        _ => {}
    }
}
