//! Events as lines and spans of `tracing`.

use std::collections::HashMap;
use std::fmt;

use leasehold_core::{Error, FencingToken, HolderId, LossReason};
use tracing::{Span, debug, field, info, info_span, warn};

use super::{Event, LeaseFacts, Observer, RequestFacts};
use crate::mutex::Mutex;

/// A holder and its token: a lease that was passed on has the same holder.
type Hold = (HolderId, FencingToken);

/// Hands every event to `tracing`: losses and warnings as `WARN`, requests to the store as `TRACE`,
/// trouble that hinders a call, late renewals and ends of outages as `INFO`, and all others as
/// `DEBUG`.
///
/// Waits and leases are spans of level `INFO`: `leasehold.acquire` from the moment at which a call
/// has to wait to the call's end, and `leasehold.hold` from the grant to the end of the lease. Both
/// are children of the span in which the call was made, so that a trace shows waiting and holding
/// as bars. Each `leasehold.hold` is linked to its `leasehold.acquire` (`follows_from`). A span
/// stays open while a child of it is open. To keep a guard for longer than the span around the
/// call, acquire it in a span that lives as long as the guard.
///
/// Fields are `leasehold.name`, `leasehold.mode`, `leasehold.label`, `leasehold.token`,
/// `leasehold.holder` and `leasehold.outcome`. After an error there are also `error.type` and
/// `otel.status_code`, from which OpenTelemetry takes the status of the span.
#[derive(Debug, Default)]
pub struct TracingObserver {
    calls: Mutex<HashMap<u64, Span>>,
    holds: Mutex<HashMap<Hold, Span>>,
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

    fn end_hold(&self, hold: Hold, outcome: &str, loss: Option<LossReason>) -> Span {
        let span = self.holds.lock().remove(&hold).unwrap_or_else(Span::none);
        let loss = loss.map(LossReason::as_str);
        record_end(&span, outcome, loss.as_ref().map(|loss| loss as &dyn fmt::Display));
        span
    }

    fn hold(&self, hold: Hold) -> Span {
        self.holds.lock().get(&hold).cloned().unwrap_or_else(Span::none)
    }

    /// The span of a call that waits. Begins the span if it is the first news of the call.
    fn wait(&self, call: u64, RequestFacts { name, mode, label }: RequestFacts<'_>) -> Span {
        let mut calls = self.calls.lock();
        if let Some(span) = calls.get(&call) {
            return span.clone();
        }
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
            calls.insert(call, span.clone());
        }
        span
    }

    fn granted(
        &self,
        call: u64,
        LeaseFacts { holder, name, mode, label, token }: LeaseFacts<'_>,
    ) -> Span {
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
            self.holds.lock().insert((holder, token), span.clone());
        }
        span
    }
}

impl Observer for TracingObserver {
    /// Opens and closes the spans that an event begins or ends, and logs the event in its span;
    /// without one, in the current span.
    fn observe(&self, event: &Event<'_>) {
        match *event {
            Event::Waiting { call, request, ahead, own, cause } => {
                let span = self.wait(call, request);
                let (_entered, name, own) = (span.enter(), request.name, own.map(field::display));
                match cause {
                    Some(cause) => info!(%name, ?ahead, own, %cause, "waiting"),
                    None => debug!(%name, ?ahead, own, "waiting"),
                }
            }
            Event::Granted { call, lease, waited } => {
                let (span, LeaseFacts { name, token, .. }) = (self.granted(call, lease), lease);
                span.in_scope(|| debug!(%name, %token, ?waited, "granted"));
            }
            Event::Renewed { lease: LeaseFacts { holder, name, token, .. }, validity } => {
                self.hold((holder, token)).in_scope(|| debug!(%name, %token, ?validity, "renewed"));
            }
            Event::Overdue { lease: LeaseFacts { holder, name, token, .. }, validity, cause } => {
                let span = self.hold((holder, token));
                span.in_scope(|| info!(%name, %token, ?validity, %cause, "renewal overdue"));
            }
            Event::Lost {
                lease: LeaseFacts { holder, name, token, .. }, reason, cause, ..
            } => {
                let span = self.end_hold((holder, token), "lost", Some(reason));
                let cause = cause.map(field::display);
                span.in_scope(|| warn!(%name, %token, %reason, cause, "lost"));
            }
            Event::Released { lease: LeaseFacts { holder, name, token, .. }, held } => {
                let span = self.end_hold((holder, token), "released", None);
                span.in_scope(|| debug!(%name, %token, ?held, "released"));
            }
            Event::Failed { call, request: RequestFacts { name, .. }, waited, outcome, error } => {
                let kind = error.map(error_type);
                let kind = kind.as_ref().map(|kind| kind as &dyn fmt::Display);
                let (span, error) = (self.end_call(call, outcome, kind), error.map(field::display));
                span.in_scope(|| debug!(%name, ?waited, outcome, error, "failed"));
            }
            Event::RoundTrip { operation, took, error, away, .. } => {
                let error = error.map(field::display);
                tracing::trace!(operation, ?took, error, "round trip");
                if let Some(away) = away {
                    info!(?away, "the store answers again");
                }
            }
            Event::Warning { text } => warn!("{text}"),
        }
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
        Error::Timeout { .. } => "timeout",
        Error::Closed => "closed",
        Error::Indeterminate { .. } => "indeterminate",
        Error::NotAdopted { reason, .. } => reason.as_str(),
        Error::Store(error) => error.kind().as_str(),
        // The word that OpenTelemetry uses for all other errors.
        _ => "_OTHER",
    }
}
