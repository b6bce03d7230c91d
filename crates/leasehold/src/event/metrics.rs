//! Events as metrics of the crate `metrics`.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use leasehold_core::{LockName, Mode};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, SharedString, Unit,
    with_recorder,
};

use super::{Event, Observer};
use crate::mutex::Mutex;

/// Most groups of names that are told apart: 100. A label with more values than that costs whoever
/// keeps the metrics more than it tells.
const MAX_GROUPS: usize = 100;

/// The group of all names that came after that many groups.
const OTHER: &str = "other";

const ACQUIRES: &str = "leasehold_acquires_total";
const HELD: &str = "leasehold_held";
const HOLD: &str = "leasehold_hold_seconds";
const KEEPER_LATE: &str = "leasehold_keeper_late_seconds";
const LOSSES: &str = "leasehold_losses_total";
const RECONNECTS: &str = "leasehold_reconnects_total";
const RENEWALS: &str = "leasehold_renewals_total";
const STORE: &str = "leasehold_store_seconds";
const STORE_ERRORS: &str = "leasehold_store_errors_total";
const UNDELIVERED: &str = "leasehold_undelivered_total";
const WAIT: &str = "leasehold_wait_seconds";
const WAITING: &str = "leasehold_waiting";

static METADATA: Metadata<'_> = Metadata::new("leasehold", Level::INFO, Some(module_path!()));

/// Counts events, and measures how long calls wait, leases are held and the store takes, for the
/// recorder of the crate `metrics` that is installed: that of an exporter for Prometheus,
/// OpenTelemetry, StatsD and so on. Install it before the client is used.
///
/// - `leasehold_acquires_total`: calls that have ended, by `mode` and `outcome` (`granted`, `busy`,
///   `timeout`, `cancelled`, `error`)
/// - `leasehold_waiting`: calls that have not ended, by `mode`
/// - `leasehold_wait_seconds`: a histogram, from the call of a verb to the grant, by `mode`
/// - `leasehold_held`: leases, by `mode`
/// - `leasehold_hold_seconds`: a histogram, from the grant to the release or the loss, by `mode`
/// - `leasehold_losses_total`, by `reason` ([`LossReason::as_str`](crate::LossReason::as_str))
/// - `leasehold_undelivered_total`: grants in vain, by `mode`
/// - `leasehold_renewals_total`, by `outcome` (`renewed`; `overdue`, the first that fails;
///   `failed`, each that fails after it)
/// - `leasehold_keeper_late_seconds`: a histogram, from 250 ms on
/// - `leasehold_store_seconds`: a histogram of round trips, by `operation`
/// - `leasehold_store_errors_total`, by `operation` and `kind`
///   ([`StoreErrorKind::as_str`](crate::error::StoreErrorKind::as_str))
/// - `leasehold_reconnects_total`: ends of outages
///
/// `mode` is `exclusive`, `shared`, `upgradable` or `permits`. Names of locks are no label: there
/// may be millions. [`group_by`](Self::group_by) makes few groups of them.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// use leasehold::Client;
/// use leasehold::event::MetricsObserver;
///
/// let client = Client::builder().url("memory:").observer(MetricsObserver::new()).build().await?;
/// client.mutex("invoices/42").acquire().await?.release().await
/// # }
/// ```
pub struct MetricsObserver {
    described: Once,
    grouping: Option<Grouping>,
}

struct Grouping {
    group: Box<dyn for<'a> Fn(&'a LockName) -> &'a str + Send + Sync>,
    groups: Mutex<HashSet<Arc<str>>>,
}

impl Grouping {
    fn label(&self, name: &LockName) -> Label {
        let group = (self.group)(name);
        let mut groups = self.groups.lock();
        let group = match groups.get(group) {
            Some(group) => SharedString::from_shared(Arc::clone(group)),
            None if groups.len() < MAX_GROUPS => {
                let group: Arc<str> = group.into();
                groups.insert(Arc::clone(&group));
                SharedString::from_shared(group)
            }
            None => SharedString::const_str(OTHER),
        };
        Label::new("group", group)
    }
}

impl MetricsObserver {
    /// One that tells no names apart.
    pub fn new() -> Self {
        Self { described: Once::new(), grouping: None }
    }

    /// Adds a label `group` to all that is about a lock: what `group` makes of its name, such as
    /// `invoices` of `invoices/42`. It must give the same for the same name. There may be 100
    /// groups; what comes after them is in the group `other`.
    ///
    /// ```
    /// use leasehold::event::MetricsObserver;
    ///
    /// let observer = MetricsObserver::new().group_by(|name| {
    ///     name.as_str().split_once('/').map_or("single", |(group, _)| group)
    /// });
    /// ```
    #[must_use]
    pub fn group_by(
        mut self,
        group: impl for<'a> Fn(&'a LockName) -> &'a str + Send + Sync + 'static,
    ) -> Self {
        self.grouping = Some(Grouping { group: Box::new(group), groups: Mutex::default() });
        self
    }

    /// The key of a metric about a lock.
    fn key(
        &self,
        metric: &'static str,
        name: &LockName,
        labels: &[(&'static str, &'static str)],
    ) -> Key {
        let group = self.grouping.as_ref().map(|grouping| grouping.label(name));
        let labels = labels.iter().map(|(label, value)| Label::from_static_parts(label, value));
        Key::from_parts(KeyName::from_const_str(metric), labels.chain(group).collect::<Vec<_>>())
    }

    fn held(&self, name: &LockName, mode: Mode) -> Gauge {
        gauge(&self.key(HELD, name, &[("mode", mode.as_str())]))
    }

    fn waiting(&self, name: &LockName, mode: Mode) -> Gauge {
        gauge(&self.key(WAITING, name, &[("mode", mode.as_str())]))
    }

    fn end_call(&self, name: &LockName, mode: Mode, outcome: &'static str) {
        self.waiting(name, mode).decrement(1);
        let labels = [("mode", mode.as_str()), ("outcome", outcome)];
        counter(&self.key(ACQUIRES, name, &labels)).increment(1);
    }

    fn granted(&self, name: &LockName, mode: Mode, waited: Duration) {
        self.end_call(name, mode, "granted");
        histogram(&self.key(WAIT, name, &[("mode", mode.as_str())])).record(waited);
        self.held(name, mode).increment(1);
    }

    fn end_hold(&self, name: &LockName, mode: Mode, held: Duration) {
        self.held(name, mode).decrement(1);
        histogram(&self.key(HOLD, name, &[("mode", mode.as_str())])).record(held);
    }

    fn renewal(&self, name: &LockName, outcome: &'static str) {
        counter(&self.key(RENEWALS, name, &[("outcome", outcome)])).increment(1);
    }
}

impl Default for MetricsObserver {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for MetricsObserver {
    fn observe(&self, event: &Event<'_>) {
        self.described.call_once(describe);
        match *event {
            Event::Acquiring { name, mode, .. } => self.waiting(name, mode).increment(1),
            Event::Busy { name, mode, .. } => self.end_call(name, mode, "busy"),
            Event::Cancelled { name, mode, .. } => self.end_call(name, mode, "cancelled"),
            Event::Failed { name, mode, .. } => self.end_call(name, mode, "error"),
            Event::TimedOut { name, mode, .. } => self.end_call(name, mode, "timeout"),
            Event::Granted { name, mode, waited, .. } => self.granted(name, mode, waited),
            Event::Lost { name, mode, held, reason, .. } => {
                self.end_hold(name, mode, held);
                counter(&self.key(LOSSES, name, &[("reason", reason.as_str())])).increment(1);
            }
            Event::ModeChanged { name, from, mode, .. } => {
                self.held(name, from).decrement(1);
                self.held(name, mode).increment(1);
            }
            Event::Overdue { name, lasting, .. } => {
                self.renewal(name, if lasting.is_zero() { "overdue" } else { "failed" });
            }
            Event::Reconnected { .. } => counter(&Key::from_static_name(RECONNECTS)).increment(1),
            Event::Released { name, mode, held, .. } => self.end_hold(name, mode, held),
            Event::Renewed { name, .. } => self.renewal(name, "renewed"),
            Event::RoundTrip { operation, took, error, .. } => round_trip(operation, took, error),
            Event::Stalled { late, .. } => {
                histogram(&Key::from_static_name(KEEPER_LATE)).record(late);
            }
            Event::Undelivered { name, mode, .. } => {
                counter(&self.key(UNDELIVERED, name, &[("mode", mode.as_str())])).increment(1);
            }
            // What they announce is counted when it comes.
            Event::Delayed { .. }
            | Event::OwnLease { .. }
            | Event::Waiting { .. }
            | Event::WaitingForCapacity { .. }
            | Event::Warning { .. } => {}
        }
    }
}

fn round_trip(operation: &'static str, took: Duration, error: Option<&leasehold_core::StoreError>) {
    let operation = Label::from_static_parts("operation", operation);
    histogram(&Key::from_parts(STORE, vec![operation.clone()])).record(took);
    if let Some(error) = error {
        let kind = Label::from_static_parts("kind", error.kind().as_str());
        counter(&Key::from_parts(STORE_ERRORS, vec![operation, kind])).increment(1);
    }
}

fn counter(key: &Key) -> Counter {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA))
}

fn gauge(key: &Key) -> Gauge {
    with_recorder(|recorder| recorder.register_gauge(key, &METADATA))
}

fn histogram(key: &Key) -> Histogram {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA))
}

fn describe() {
    let counters = [
        (ACQUIRES, "Calls for a lease that have ended, by how."),
        (LOSSES, "Leases that ended before their holder let go, by why."),
        (RECONNECTS, "How often the store answered again after an outage."),
        (RENEWALS, "Renewals of leases, by whether they succeeded."),
        (STORE_ERRORS, "Requests to the store that failed."),
        (UNDELIVERED, "Grants that have reached nobody and were given back."),
    ];
    let gauges = [
        (HELD, "Leases that are held now."),
        (WAITING, "Calls for a lease that have not ended yet."),
    ];
    let histograms = [
        (HOLD, "For how long leases were held."),
        (KEEPER_LATE, "How late renewals were woken, from 250 ms on."),
        (STORE, "How long requests to the store took."),
        (WAIT, "How long calls waited that were granted a lease."),
    ];
    with_recorder(|recorder| {
        for (name, words) in counters {
            recorder.describe_counter(name.into(), Some(Unit::Count), words.into());
        }
        for (name, words) in gauges {
            recorder.describe_gauge(name.into(), Some(Unit::Count), words.into());
        }
        for (name, words) in histograms {
            recorder.describe_histogram(name.into(), Some(Unit::Seconds), words.into());
        }
    });
}

impl fmt::Debug for MetricsObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsObserver").finish_non_exhaustive()
    }
}
